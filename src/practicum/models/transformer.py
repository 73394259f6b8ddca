r"""One small decoder for every language study that trains from scratch.

Pre-norm blocks with RMSNorm, rotary positions (RoPE, Su et al. 2021) and SwiGLU or a GELU MLP; a
key/value cache for generation, attention maps on request.

.. math:: x \leftarrow x + A(\mathrm{rms}(x)), \qquad x \leftarrow x + F(\mathrm{rms}(x))

Positions are relative, so prompts of different lengths are padded on the left and need nothing but
a mask. Several seeds can be trained at once (:func:`train_stacked`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from practicum.errors import InputError
from practicum.models.training import (
    Averaged,
    load_checkpoint,
    nn,
    save_checkpoint,
    torch,
    torch_generator,
)

Tensor = torch.Tensor
F = nn.functional
IGNORE = -100  # a target that is not learned, as in torch's cross entropy


@dataclass(frozen=True)
class DecoderConfig:
    """The shape of a decoder.

    Parameters
    ----------
    vocab : int
        Number of tokens.
    d_model, n_layers, n_heads : int
    d_ff : int, optional
        Hidden width of the feed-forward part; by default 4 d_model for ``gelu`` and 8/3 d_model
        for ``swiglu``, which has the same number of weights.
    mlp : {"swiglu", "gelu"}
    rope_base : float
        Longest wavelength of the rotations is about 2 pi rope_base tokens.
    tied : bool
        The unembedding is the embedding.
    smeared : bool
        Every key is mixed with the key before it, a learned share for each head (Olsson et al.
        2022). What followed a token can then be looked up by one layer, which small models learn
        in hundreds of steps instead of tens of thousands.

    Raises
    ------
    InputError
        If heads do not divide the width, a head's width is odd, or a size is not positive.

    Examples
    --------
    >>> DecoderConfig(vocab=60, d_model=64, n_heads=4).head_width
    16
    """

    vocab: int
    d_model: int = 64
    n_layers: int = 2
    n_heads: int = 4
    d_ff: int | None = None
    mlp: Literal["swiglu", "gelu"] = "swiglu"
    rope_base: float = 10_000.0
    tied: bool = True
    smeared: bool = False

    def __post_init__(self) -> None:
        for name in ("vocab", "d_model", "n_layers", "n_heads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}: at least 1")
        if self.d_ff is not None and self.d_ff < 1:
            raise InputError(f"d_ff={self.d_ff}: at least 1")
        if self.d_model % self.n_heads or self.head_width % 2:
            raise InputError(
                f"d_model={self.d_model} does not split into {self.n_heads} heads of even width",
                "choose d_model as a multiple of 2 n_heads",
            )
        if self.mlp not in ("swiglu", "gelu"):
            raise InputError(f"mlp={self.mlp!r} is not known", "use swiglu or gelu")

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.d_model // self.n_heads

    @property
    def hidden(self) -> int:
        """Width of the feed-forward part."""
        wide = 4 * self.d_model if self.mlp == "gelu" else 8 * self.d_model // 3
        return self.d_ff or wide


class Cache:
    """Keys and values of the tokens seen so far, and which of them are padding.

    Parameters
    ----------
    padding : bool tensor, shape (n, t0), optional
        True where the prompt is padding (on the left).

    Attributes
    ----------
    length : int
        Tokens held.

    Examples
    --------
    >>> net = Decoder(DecoderConfig(vocab=5))
    >>> cache = Cache()
    >>> net(torch.tensor([[1, 2, 3]]), cache).shape, cache.length
    (torch.Size([1, 3, 5]), 3)
    """

    def __init__(self, padding: Tensor | None = None) -> None:
        self.layers: list[tuple[Tensor, Tensor]] = []
        self.last_keys: dict[int, Tensor] = {}  # before they are smeared and rotated
        self.padding = padding
        self.length = 0

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of a layer, the new ones added; room grows by doubling."""
        start, end = self.length, self.length + keys.shape[2]
        if layer == len(self.layers):
            self.layers.append((keys.new_empty(0), keys.new_empty(0)))
        held = self.layers[layer]
        if held[0].dim() == 1 or held[0].shape[2] < end:
            room = (*keys.shape[:2], max(2 * end, 64), keys.shape[3])
            grown = (keys.new_empty(room), keys.new_empty(room))
            if start:
                for new, old in zip(grown, held, strict=True):
                    new[:, :, :start] = old[:, :, :start]
            held = self.layers[layer] = grown
        held[0][:, :, start:end] = keys
        held[1][:, :, start:end] = values
        return held[0][:, :, :end], held[1][:, :, :end]


class _Block(nn.Module):
    """Attention and a feed-forward part, each on the normalised stream and added to it."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        d, hidden = config.d_model, config.hidden
        self.config = config
        self.norm1, self.norm2 = nn.RMSNorm(d, eps=1e-6), nn.RMSNorm(d, eps=1e-6)
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        if config.smeared:
            self.smear = nn.Parameter(torch.empty(config.n_heads))
        gated = config.mlp == "swiglu"
        self.up = nn.Linear(d, 2 * hidden if gated else hidden, bias=False)
        self.down = nn.Linear(hidden, d, bias=False)

    def heads(
        self, x: Tensor, turn: tuple[Tensor, Tensor], last_keys: dict[int, Tensor], layer: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys (both rotated) and values, each (n, heads, t, width)."""
        c = self.config
        n, t, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(n, t, 3 * c.n_heads, c.head_width).transpose(1, 2)
        qk = qkv[:, : 2 * c.n_heads]
        if c.smeared:
            keys = qk[:, c.n_heads :]
            before = last_keys.get(layer)
            first = torch.zeros_like(keys[:, :, :1]) if before is None else before
            last_keys[layer] = keys[:, :, -1:]
            own = torch.sigmoid(self.smear)[:, None, None]
            mixed = own * keys + (1 - own) * torch.cat([first, keys[:, :, :-1]], dim=2)
            qk = torch.cat([qk[:, : c.n_heads], mixed], dim=1)
        qk = rotate(qk, *turn)
        return qk[:, : c.n_heads], qk[:, c.n_heads :], qkv[:, 2 * c.n_heads :]

    def feed_forward(self, x: Tensor) -> Tensor:
        h = self.up(self.norm2(x))
        if self.config.mlp == "swiglu":
            gate, h = h.chunk(2, dim=-1)
            return self.down(F.silu(gate) * h)
        return self.down(F.gelu(h))

    def finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        n, t, d = x.shape
        x = x + self.out(mixed.transpose(1, 2).reshape(n, t, d))
        return x + self.feed_forward(x)


def rotate(x: Float[Tensor, "n h t w"], cos: Tensor, sin: Tensor) -> Float[Tensor, "n h t w"]:
    r"""Rotary positions: pairs of coordinates turned by an angle that grows with the position.

    Coordinate i is paired with i + w/2; the pair turns by :math:`m\,b^{-2i/w}` at position m, so
    that products of queries and keys depend on their distance alone.

    Parameters
    ----------
    x : tensor, shape (n, heads, t, w)
    cos, sin : tensors, shape (t, w/2)

    Raises
    ------
    RuntimeError
        If the shapes do not match.

    Examples
    --------
    >>> x = torch.randn(1, 1, 3, 8)
    >>> turned = rotate(x, *turns(3, 8))
    >>> bool(torch.allclose(x.norm(dim=-1), turned.norm(dim=-1), atol=1e-5))
    True
    """
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def turns(
    end: int, width: int, base: float = 10_000.0, start: int = 0
) -> tuple[Float[Tensor, "t w"], Float[Tensor, "t w"]]:
    """Cosines and sines of the rotations at positions start to end - 1.

    Parameters
    ----------
    end, width, start : int
        Positions and a head's width (even).
    base : float

    Returns
    -------
    pair of tensors, shape (end - start, width / 2)

    Raises
    ------
    RuntimeError
        If there is no position.

    Examples
    --------
    >>> turns(4, 8)[0].shape
    torch.Size([4, 4])
    """
    frequency = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(start, end, dtype=torch.float64)[:, None] * frequency
    return angle.cos().float(), angle.sin().float()


class Decoder(nn.Module):
    """A decoder-only transformer: tokens in, logits of the next token out.

    Parameters
    ----------
    config : DecoderConfig
    seed : int, Generator or None
        Of the initial weights; torch's global state is left alone.

    Examples
    --------
    >>> net = Decoder(DecoderConfig(vocab=11, d_model=32, n_layers=2), seed=0)
    >>> net(torch.zeros(2, 7, dtype=torch.long)).shape
    torch.Size([2, 7, 11])
    >>> net.generate(torch.tensor([[1, 2, 3]]), 4).shape
    torch.Size([1, 4])
    """

    def __init__(
        self, config: DecoderConfig, seed: int | np.random.Generator | None = None
    ) -> None:
        super().__init__()
        self.config = config
        with torch.device("meta"):
            self.embedding = nn.Embedding(config.vocab, config.d_model)
            self.blocks = nn.ModuleList(_Block(config) for _ in range(config.n_layers))
            self.norm = nn.RMSNorm(config.d_model, eps=1e-6)
            self.unembedding = nn.Linear(config.d_model, config.vocab, bias=False)
        self.to_empty(device="cpu")
        if config.tied:
            self.unembedding.weight = self.embedding.weight
        self._initialise(torch_generator(seed))
        self._turns: tuple[Tensor, Tensor] | None = None

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        """Token identities dominate the stream at first: unit embeddings, small additions to it."""
        for name, p in self.named_parameters():
            if p.dim() == 1:
                p.fill_(0.0 if name.endswith("smear") else 1.0)
                continue
            scale = 1.0 if name == "embedding.weight" else 1 / math.sqrt(p.shape[1])
            if name.endswith(("out.weight", "down.weight")):
                scale *= 0.3 / math.sqrt(2 * self.config.n_layers)
            p.normal_(0.0, scale, generator=generator)

    def unembed(self, stream: Float[Tensor, "*n d"]) -> Float[Tensor, "*n v"]:
        """Logits from the normalised stream; a tied matrix is scaled to unit logits at first."""
        if self.config.tied:
            stream = stream * self.config.d_model**-0.5
        return self.unembedding(stream)

    def _angles(self, start: int, end: int, device: torch.device) -> tuple[Tensor, Tensor]:
        held = self._turns
        if held is None or len(held[0]) < end or held[0].device != device:
            room = max(256, 2 * end)
            with torch.inference_mode(False):  # generation may ask first, training later
                cos, sin = turns(room, self.config.head_width, self.config.rope_base)
                held = self._turns = (cos.to(device), sin.to(device))
        return held[0][start:end], held[1][start:end]

    def hidden(self, tokens: Int[Tensor, "n t"], cache: Cache | None = None) -> Tensor:
        """The normalised stream before the unembedding, shape (n, t, d_model)."""
        start = cache.length if cache is not None else 0
        t = tokens.shape[1]
        x = self.embedding(tokens)
        if cache and cache.padding is not None and not start:
            x = x.masked_fill(cache.padding[..., None], 0.0)  # and nothing comes of nothing
        turn = self._angles(start, start + t, tokens.device)
        last_keys: dict[int, Tensor] = cache.last_keys if cache else {}
        mask = _mask(cache, start, t, tokens.device) if cache else None
        for layer, block in enumerate(self.blocks):
            q, k, v = block.heads(x, turn, last_keys, layer)
            if cache is not None:
                k, v = cache.extend(layer, k, v)
            causal = mask is None and t > 1
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
            x = block.finish(x, mixed)
        if cache is not None:
            cache.length += t
        return self.norm(x)

    def forward(
        self, tokens: Int[Tensor, "n t"], cache: Cache | None = None
    ) -> Float[Tensor, "n t v"]:
        """Logits of the token after each; with a cache, ``tokens`` continue what it holds."""
        return self.unembed(self.hidden(tokens, cache))

    def loss(self, tokens: Int[Tensor, "n t"], targets: Int[Tensor, "n t"]) -> Tensor:
        """Mean cross entropy of the targets that are learned (>= 0), in nats a token.

        Only the positions that are learned are unembedded.
        """
        stream = self.hidden(tokens)
        keep = targets >= 0
        if not bool(keep.all()):
            stream, targets = stream[keep], targets[keep]
        logits = self.unembed(stream)
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten())

    def attention_maps(self, tokens: Int[Tensor, "n t"]) -> Float[Tensor, "layers n h t t"]:
        """Attention of every layer and head: row i says where token i looks; rows sum to 1."""
        t = tokens.shape[1]
        x = self.embedding(tokens)
        turn = self._angles(0, t, tokens.device)
        future = torch.ones(t, t, dtype=torch.bool, device=tokens.device).triu(1)
        maps = []
        for block in self.blocks:
            q, k, v = block.heads(x, turn, {}, 0)
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.config.head_width)
            weights = scores.masked_fill(future, -math.inf).softmax(dim=-1)
            maps.append(weights)
            x = block.finish(x, weights @ v)
        return torch.stack(maps)

    @torch.no_grad()  # not inference_mode: what it wrote may be trained on
    def generate(
        self,
        prompts: Int[Tensor, "n t"] | Sequence[Int[Tensor, " t"]],
        max_new: int,
        *,
        temperature: float = 0.0,
        stop: int | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> Int[Tensor, "n k"]:
        """Continue prompts, all at once.

        Parameters
        ----------
        prompts : int tensor (n, t), or a list of vectors of different lengths
        max_new : int
        temperature : float
            0 takes the most likely token.
        stop : int, optional
            A token that ends a row; the rest of the row is filled with it.
        seed : int, Generator or None
            Of the draws, where temperature > 0.

        Returns
        -------
        int tensor, shape (n, at most max_new)
            The new tokens alone.

        Raises
        ------
        InputError
            If a prompt is empty or a number is out of range.
        """
        tokens, padding = _left_padded(prompts)
        if max_new < 1 or temperature < 0:
            raise InputError(f"max_new={max_new}, temperature={temperature}: at least 1, and 0")
        generator = torch_generator(seed, tokens.device) if temperature else None
        cache, new = Cache(padding), []
        done = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
        step = tokens
        for _ in range(max_new):
            logits = self.unembed(self.hidden(step, cache)[:, -1])
            if generator is None:
                following = logits.argmax(dim=-1)
            else:
                chances = (logits / temperature).softmax(dim=-1)
                following = torch.multinomial(chances, 1, generator=generator)[:, 0]
            if stop is not None:
                following = torch.where(done, stop, following)
                done |= following == stop
            new.append(following)
            if stop is not None and bool(done.all()):
                break
            step = following[:, None]
        return torch.stack(new, dim=1)

    def save(self, path: str | Path, **about: Any) -> None:
        """Weights and configuration as one safetensors file."""
        state = dict(self.state_dict())
        if self.config.tied:
            del state["unembedding.weight"]
        save_checkpoint(path, state, {"decoder": asdict(self.config), **about})

    @classmethod
    def load(cls, path: str | Path) -> Decoder:
        """What :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file is missing, damaged, or holds something else.
        """
        state, about = load_checkpoint(path)
        if "decoder" not in about:
            raise InputError(f"{path} holds no decoder")
        network = cls(DecoderConfig(**about["decoder"]), seed=0)
        if network.config.tied:
            state["unembedding.weight"] = state["embedding.weight"]
        try:
            network.load_state_dict(state)
        except RuntimeError as error:
            raise InputError(f"{path} does not fit its own configuration") from error
        return network


def _left_padded(prompts: Tensor | Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Prompts as one tensor, shorter ones padded on the left, and where the padding is."""
    if isinstance(prompts, Tensor):
        if prompts.dim() != 2 or not prompts.numel():
            raise InputError(f"prompts of shape {tuple(prompts.shape)}: rows of tokens expected")
        return prompts, None
    lengths = [len(p) for p in prompts]
    if not lengths or min(lengths) < 1:
        raise InputError("a prompt is empty", "every prompt needs at least one token")
    width = max(lengths)
    tokens = torch.stack([F.pad(p, (width - len(p), 0)) for p in prompts])
    if min(lengths) == width:
        return tokens, None
    place = torch.arange(width, device=tokens.device)
    missing = width - torch.tensor(lengths, device=tokens.device)
    return tokens, place < missing[:, None]


def _mask(cache: Cache, start: int, t: int, device: torch.device) -> Tensor | None:
    """Which keys each new token may see, (n or 1, 1, t, start + t); None: plainly causal."""
    if cache.padding is None and (start == 0 or t == 1):
        return None
    end = start + t
    seen = torch.ones(t, end, dtype=torch.bool, device=device).tril(start)[None, None]
    if cache.padding is None:
        return seen
    padding = F.pad(cache.padding, (0, end - cache.padding.shape[1]))
    # a padded row sees itself: a softmax over nothing is not a number
    alone = torch.eye(t, end, dtype=torch.bool, device=device) if start == 0 else False
    return (seen & ~padding[:, None, None, :]) | alone


# --- training ------------------------------------------------------------------------------------

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Training:
    """How a decoder is trained: AdamW, warm-up, linear decay, clipping, averaged weights.

    Parameters
    ----------
    steps : int
    lr : float
        At its highest.
    warmup : int
        Steps in which the rate rises.
    floor : float
        Share of the rate at the end.
    weight_decay, clip : float
        Decay of matrices; largest norm of the gradient.
    ema : float
        Decay of the averaged weights; 0: none.

    Examples
    --------
    >>> [round(Training(steps=100, warmup=10).rate(k), 3) for k in (0, 9, 54, 99)]
    [0.1, 1.0, 0.55, 0.1]
    """

    steps: int = 1000
    lr: float = 2e-3
    warmup: int = 50
    floor: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    ema: float = 0.0

    def rate(self, step: int) -> float:
        """The rate at a step, as a share of ``lr``."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        left = (self.steps - 1 - step) / max(1, self.steps - 1 - (self.warmup - 1))
        return self.floor + (1 - self.floor) * left


def _optimiser(parameters: Sequence[Tensor], training: Training, vector: int = 1) -> Any:
    """AdamW; gains (of ``vector`` axes, one more where networks are stacked) are not decayed."""
    matrices = [p for p in parameters if p.dim() > vector]
    gains = [p for p in parameters if p.dim() <= vector]
    groups = [
        {"params": matrices, "weight_decay": training.weight_decay},
        {"params": gains, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=training.lr, betas=(0.9, 0.98), fused=True)


def train(
    network: Decoder,
    batch_of: Callable[[int], Batch],
    training: Training,
    progress: Callable[[int, float], None] | None = None,
) -> np.ndarray:
    """Train a decoder on batches made on the fly.

    Parameters
    ----------
    network : Decoder
        Left with the averaged weights where ``training.ema`` asks for them.
    batch_of : callable
        Step -> (tokens, targets), both (n, t); target :data:`IGNORE` is not learned.
    training : Training
    progress : callable, optional
        Called with (step, loss) every 50 steps.

    Returns
    -------
    array, shape (steps,)
        Loss of every step, nats a token.

    Raises
    ------
    InputError
        If the loss is no longer finite.

    Examples
    --------
    >>> net = Decoder(DecoderConfig(vocab=4, d_model=16), seed=0)
    >>> row = torch.tensor([[0, 1, 2, 3] * 4])
    >>> losses = train(net, lambda k: (row[:, :-1], row[:, 1:]), Training(steps=60, warmup=5))
    >>> bool(losses[-1] < 0.5 * losses[0])
    True
    """
    parameters = [p for p in network.parameters() if p.requires_grad]
    optimiser = _optimiser(parameters, training)
    average = Averaged(network, training.ema) if training.ema else None
    network.train()
    history = np.empty(training.steps)
    for step in range(training.steps):
        for group in optimiser.param_groups:
            group["lr"] = training.lr * training.rate(step)
        loss = network.loss(*batch_of(step))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, training.clip)
        optimiser.step()
        if average:
            average.update(network)
        history[step] = loss.item()
        if not math.isfinite(history[step]):
            raise InputError(f"training diverged at step {step + 1}", "lower lr")
        if progress and (step + 1) % 50 == 0:
            progress(step + 1, history[step])
    if average:
        average.copy_to(network)
    network.eval()
    return history


def train_stacked(
    networks: Sequence[Decoder],
    batch_of: Callable[[int], Batch],
    training: Training,
) -> np.ndarray:
    """Train several decoders of one shape (seeds, say) in one process, weights stacked.

    The forward and backward passes are vectorised over the networks (``torch.func.vmap``), each
    clips its own gradient, and each sees its own batch. On one core it pays where a step is short
    of arithmetic: tiny widths and batches; ``benchmarks/bench_transformer.py`` measures where.

    Parameters
    ----------
    networks : sequence of Decoder
        Of equal configuration; trained in place.
    batch_of : callable
        Step -> (tokens, targets), both (networks, n, t), the same number learned in each.
    training : Training
        ``ema`` must be 0.

    Returns
    -------
    array, shape (networks, steps)

    Raises
    ------
    InputError
        If the networks differ in shape, averaged weights are asked for, or a loss diverges.

    Examples
    --------
    >>> nets = [Decoder(DecoderConfig(vocab=4, d_model=8), seed=k) for k in range(3)]
    >>> rows = torch.arange(12).remainder(4).expand(3, 2, 12)
    >>> train_stacked(nets, lambda k: (rows[..., :-1], rows[..., 1:]), Training(steps=2)).shape
    (3, 2)
    """
    from torch.func import functional_call, grad_and_value, vmap
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if not networks or any(n.config != networks[0].config for n in networks):
        raise InputError("networks trained together must have one configuration")
    if training.ema:
        raise InputError(
            "train_stacked keeps no averaged weights", "use ema=0, or train() one by one"
        )
    base = networks[0]
    names = [name for name, _ in base.named_parameters()]  # a tied matrix once
    stacked = {
        name: torch.stack([dict(n.named_parameters())[name].detach() for n in networks])
        for name in names
    }
    optimiser = _optimiser(list(stacked.values()), training, vector=2)

    def loss_of(weights: Mapping[str, Tensor], tokens: Tensor, targets: Tensor) -> Tensor:
        logits = functional_call(base, dict(weights), (tokens,))
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=IGNORE)

    step_of = vmap(grad_and_value(loss_of), in_dims=(0, 0, 0))
    history = np.empty((len(networks), training.steps))
    for step in range(training.steps):
        for group in optimiser.param_groups:
            group["lr"] = training.lr * training.rate(step)
        with sdpa_kernel(SDPBackend.MATH):  # the fused kernel is not vectorised over networks
            gradients, losses = step_of(stacked, *batch_of(step))
        norm = sum(g.flatten(1).square().sum(dim=1) for g in gradients.values()).sqrt()
        shrink = (training.clip / (norm + 1e-6)).clamp(max=1.0)
        for name, p in stacked.items():
            p.grad = gradients[name] * shrink.view(-1, *[1] * (p.dim() - 1))
        optimiser.step()
        history[:, step] = losses.detach().numpy()
        if not np.isfinite(history[:, step]).all():
            raise InputError(f"training diverged at step {step + 1}", "lower lr")
    with torch.no_grad():
        for k, network in enumerate(networks):
            for name, p in network.named_parameters():
                p.copy_(stacked[name][k])
    return history

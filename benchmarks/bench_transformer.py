"""The small decoder beside GPT-2 of transformers: a training step, generation, many at once.

Both have the same width, depth, heads and feed-forward width, the same batch and optimiser, one
thread. Steps are interleaved, and the ratio is the median over pairs, so that a busy machine slows
both. Exits non-zero when our step takes longer than GPT-2's.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from practicum.models.transformer import (
    Decoder,
    DecoderConfig,
    Training,
    torch,
    train,
    train_stacked,
)

SIZES = ((64, 3, 4, 62, 32, 52), (128, 4, 4, 256, 16, 64))  # width, layers, heads, vocab, n, t


def step_of(net: torch.nn.Module, loss_of: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """One training step: forward, backward, clip, AdamW."""
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        loss_of().backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()

    return step


def gpt2(width: int, layers: int, heads: int, vocab: int, t: int) -> torch.nn.Module:
    """The peer, without dropout, with its fastest attention."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=vocab,
        n_positions=2 * t,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        n_inner=4 * width,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="sdpa",
    )
    return GPT2LMHeadModel(config)


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call: others on the machine do not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ratio_of(
    theirs: Callable[[], object], ours: Callable[[], object], pairs: int, warm: int = 3
) -> tuple:
    """Median times and the median of their ratio, calls in turns."""
    for _ in range(warm):
        theirs(), ours()
    times = np.array([(seconds(theirs), seconds(ours)) for _ in range(pairs)])
    return *np.median(times, axis=0), float(np.median(times[:, 0] / times[:, 1]))


def training_step() -> bool:
    """GPT-2's time over ours, for both feed-forward parts (equally many weights)."""
    met = True
    print("a training step, CPU milliseconds (GPT-2, ours), and GPT-2's over ours")
    for width, layers, heads, vocab, n, t in SIZES:
        tokens = torch.randint(vocab, (n, t))
        peer = gpt2(width, layers, heads, vocab, t)

        def peer_loss(net: torch.nn.Module = peer, x: torch.Tensor = tokens) -> torch.Tensor:
            logits = net(input_ids=x).logits
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), x.flatten())

        their_step = step_of(peer, peer_loss)
        for mlp in ("gelu", "swiglu"):
            ours = Decoder(DecoderConfig(vocab, width, layers, heads, mlp=mlp), seed=0)
            our_step = step_of(ours, lambda net=ours, x=tokens: net.loss(x, x))
            theirs, mine, ratio = ratio_of(their_step, our_step, 15)
            weights = [sum(p.numel() for p in net.parameters()) for net in (peer, ours)]
            print(
                f"  width {width}, {layers} layers, {n} x {t} tokens, {mlp:<6} "
                f"({weights[0]:,} and {weights[1]:,} weights): {1e3 * theirs:6.1f} "
                f"{1e3 * mine:6.1f}   x {ratio:.2f}"
            )
            met &= mlp != "gelu" or ratio >= 1  # the same arithmetic is compared
    return met


def generation() -> None:
    """8 rows, 48 new tokens, greedy, both with their caches."""
    width, layers, heads, vocab, *_ = SIZES[0]
    n, new = 8, 48
    prompts = torch.randint(1, vocab, (n, 32))
    peer = gpt2(width, layers, heads, vocab, 128).eval()
    ours = Decoder(DecoderConfig(vocab, width, layers, heads, mlp="gelu"), seed=0)

    def theirs() -> object:
        with torch.inference_mode():
            return peer.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                max_new_tokens=new,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )

    a, b, ratio = ratio_of(theirs, lambda: ours.generate(prompts, new), 3, warm=1)
    print(f"{n} rows, {new} new tokens: GPT-2 {1e3 * a:.0f}, ours {1e3 * b:.0f} ms  x {ratio:.2f}")
    whole = torch.cat([prompts, ours.generate(prompts, new)], dim=1)

    def without_cache() -> None:
        with torch.inference_mode():
            for k in range(new):
                ours(whole[:, : 32 + k])

    print(f"  without the cache: x {seconds(without_cache) / b:.1f} the time")


def at_once() -> None:
    """Five seeds stacked against one after the other."""
    plan = Training(steps=15)
    print("five decoders: one after the other over stacked, CPU time (above 1: stacking pays)")
    for width, n, t in ((8, 4, 24), (16, 8, 24), (32, 8, 52), (64, 32, 52)):
        config = DecoderConfig(62, width, 2, 2, mlp="gelu")
        rows = torch.randint(62, (5, n, t + 1))
        nets = [Decoder(config, seed=k) for k in range(5)]

        def one_by_one(nets: list = nets, rows: torch.Tensor = rows) -> None:
            for net, row in zip(nets, rows, strict=True):
                train(net, lambda step, row=row: (row[:, :-1], row[:, 1:]), plan)

        def stacked(nets: list = nets, rows: torch.Tensor = rows) -> None:
            train_stacked(nets, lambda step: (rows[..., :-1], rows[..., 1:]), plan)

        a, b, ratio = ratio_of(one_by_one, stacked, 3, warm=1)
        print(
            f"  width {width:>3}, {n:>2} x {t} tokens: {1e3 * a / 15:6.1f} {1e3 * b / 15:6.1f} "
            f"ms a step   x {ratio:.2f}"
        )


def growth() -> None:
    """A training step by length: linear in the tokens until attention's square takes over."""
    print("a step of 8 rows by length, width 64, CPU milliseconds")
    for t in (32, 128, 512):
        tokens = torch.randint(62, (8, t))
        net = Decoder(DecoderConfig(62, 64, 3, 4), seed=0)
        step = step_of(net, lambda net=net, x=tokens: net.loss(x, x))
        step()
        print(f"  {t:>4} tokens {1e3 * min(seconds(step) for _ in range(3)):7.1f}")


def main() -> int:
    """Print everything; 1 if the bar is missed."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    met = training_step()
    generation()
    at_once()
    growth()
    print("bars:", "met" if met else "MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

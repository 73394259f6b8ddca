"""Causal language models of a local Hugging Face folder, with a look inside."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import Float, Int

from practicum.errors import ChatError, InputError, MissingExtra
from practicum.models.chat.local import fingerprint
from practicum.models.chat.protocol import Chat, Message, Reply, Request, Usage
from practicum.models.chat.refusals import Overflow

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Activations:
    """What the model computed on one conversation.

    Parameters
    ----------
    tokens : list of str
        As they were fed, special ones included.
    token_ids : (n,) int
    logits : (n, vocabulary)
        Of the token after each position.
    attentions : (layers, heads, n, n) or None
        Row = the position that attends; rows sum to 1.
    hidden_states : (layers + 1, n, width) or None
        The embeddings first.
    """

    tokens: list[str]
    token_ids: Int[Tensor, " n"]
    logits: Float[Tensor, "n vocabulary"]
    attentions: Float[Tensor, "layers heads n n"] | None = None
    hidden_states: Float[Tensor, "states n width"] | None = None


class HFChat(Chat):
    """Any causal model of the `transformers` package that lies on this machine.

    Requests of equal settings are answered in batches, sorted by length and padded on the left;
    requests with a temperature above 0 one by one, so that a seed gives the same reply in any
    company. Nothing is fetched from a network and nothing unpickled (safetensors only).

    Parameters
    ----------
    model : str, Path or PreTrainedModel
        A folder with ``config.json`` and ``*.safetensors``, or the loaded model.
    tokenizer : PreTrainedTokenizerBase, optional
        Needed with a loaded model; else read from the folder.
    device : str
        ``cpu``, ``cuda``, ``mps``; or ``auto``: an accelerator if torch finds one.
    dtype : str
        Of the weights: ``auto`` as stored, or ``float32``, ``bfloat16``, ``float16``.
    batch_size : int
        Requests answered together. Company changes the last bits of the arithmetic; with 1
        there is none.

    Raises
    ------
    MissingExtra
        `torch` or `transformers` is not installed.
    InputError
        The folder or its tokenizer cannot be loaded, or the device is not there.

    Notes
    -----
    `json_schema` cannot be enforced here (`holds_schema` is False): the reply is what the model
    writes. A tokenizer without a chat template gets lines ``role: content``.

    Examples
    --------
    >>> chat = HFChat("models/Qwen2.5-0.5B-Instruct")  # doctest: +SKIP
    >>> inside = chat.forward([{"role": "user", "content": "2 + 2?"}])  # doctest: +SKIP
    >>> inside.attentions.shape  # doctest: +SKIP
    torch.Size([24, 14, 34, 34])
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        device: str = "auto",
        *,
        dtype: str = "auto",
        batch_size: int = 8,
    ) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}; expected at least 1")
        _transformers()
        from practicum.models.training import resolve_device

        self.device = resolve_device(device)
        self.batch_size = batch_size
        if isinstance(model, str | Path):
            folder = Path(model).expanduser()
            self.model, own = load_folder(folder, dtype)
            self.name, self._weights = folder.name, folder_fingerprint(folder)
            tokenizer = tokenizer or own
        else:
            self.model = model
            self.name = getattr(model.config, "name_or_path", "") or type(model).__name__
            self._weights = ""
        if tokenizer is None:
            raise InputError("a loaded model needs its tokenizer", "HFChat(model, tokenizer)")
        self.tokenizer = tokenizer
        self.model.to(self.device).eval()
        self._pad, self._ends = special_ids(self.model, tokenizer)
        self.context_window = getattr(self.model.config, "max_position_embeddings", None)

    def __repr__(self) -> str:
        return f"HFChat({self.name!r}, device={str(self.device)!r})"

    @property
    def identity(self) -> str:
        if not self._weights:  # a loaded model is known by its weights alone
            self._weights = weights_fingerprint(self.model)
        return f"hf:{self._weights}:{self.model.dtype}:{self.device.type}"

    def replies(self, requests: Sequence[Request]) -> list[Reply]:
        return [reply for _, reply in sorted(self.arrivals(requests), key=lambda pair: pair[0])]

    def arrivals(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        prompts = [self._encoded(request.messages) for request in requests]
        groups: dict[Any, list[int]] = defaultdict(list)
        for position, request in enumerate(requests):
            # the window's end would cut its company too; log-probabilities fill the memory
            tight = len(prompts[position]) + request.max_tokens > (self.context_window or math.inf)
            alone = position if request.temperature > 0 or request.logprobs or tight else None
            groups[request.max_tokens, tuple(request.stop), alone].append(position)
        for positions in groups.values():
            positions.sort(key=lambda p: len(prompts[p]), reverse=True)  # short of memory: at once
            for start in range(0, len(positions), self.batch_size):
                batch = positions[start : start + self.batch_size]
                found = self._batch([requests[p] for p in batch], [prompts[p] for p in batch])
                yield from zip(batch, found, strict=True)

    def forward(
        self,
        messages: Sequence[Message],
        *,
        attentions: bool = True,
        hidden_states: bool = True,
    ) -> Activations:
        """One pass over a conversation; nothing is generated.

        Parameters
        ----------
        messages : sequence of messages
        attentions, hidden_states : bool
            Attention maps need the plain implementation, which is slower than the fused one.

        Raises
        ------
        ChatError
            More tokens than the context window holds.
        """
        import torch

        ids = self._encoded(messages)
        before = self.model.config._attn_implementation
        if attentions:  # the fused kernels never hold the map
            self.model.set_attn_implementation("eager")
        try:
            with torch.inference_mode():
                out = self.model(
                    torch.tensor([ids], device=self.device),
                    output_attentions=attentions,
                    output_hidden_states=hidden_states,
                    use_cache=False,
                )
        finally:
            self.model.set_attn_implementation(before)
        return Activations(
            self.tokenizer.convert_ids_to_tokens(ids),
            torch.tensor(ids),
            out.logits[0].cpu(),
            torch.cat(out.attentions).cpu() if attentions else None,
            torch.cat(out.hidden_states).cpu() if hidden_states else None,
        )

    def _encoded(self, messages: Sequence[Message]) -> list[int]:
        text, has_specials = self._prompt(messages)
        ids = self.tokenizer(text, add_special_tokens=not has_specials)["input_ids"]
        if self.context_window and len(ids) >= self.context_window:
            raise Overflow(len(ids) + 1, self.context_window).error(self.name, messages)
        return ids

    def _prompt(self, messages: Sequence[Message]) -> tuple[str, bool]:
        """The conversation as the model reads it; whether special tokens are in the text."""
        plain = [{**message, "content": text_of(message)} for message in messages]
        if not getattr(self.tokenizer, "chat_template", None):
            lines = [f"{message['role']}: {message['content']}" for message in plain]
            return "\n".join([*lines, "assistant:"]), False
        try:
            text = self.tokenizer.apply_chat_template(
                plain, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # a template raises what its author chose
            raise InputError(
                f"the chat template of {self.name} refuses these messages: {error}",
                "many templates know no system message, or want user and assistant in turn",
            ) from error
        return text, True

    def _batch(self, requests: Sequence[Request], prompts: list[list[int]]) -> list[Reply]:
        """Answer requests of equal settings together."""
        import torch

        started = time.perf_counter()
        request = requests[0]
        longest = max(map(len, prompts))
        room = (self.context_window or math.inf) - longest
        pad = self._pad
        ids = torch.tensor([[pad] * (longest - len(p)) + p for p in prompts])
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
        with torch.inference_mode(), torch.random.fork_rng(self._rng_devices()):
            if request.seed is not None:
                torch.manual_seed(request.seed)
            out = self._generate(
                request,
                int(min(request.max_tokens, room)),
                input_ids=ids.to(self.device),
                attention_mask=mask.to(self.device),
            )
        elapsed = (time.perf_counter() - started) / len(prompts)
        logits = torch.stack(out.logits, 1).float().log_softmax(-1) if request.logprobs else None
        return [
            self._reply(request, len(prompt), row[longest:].tolist(), elapsed, logits)
            for prompt, row in zip(prompts, out.sequences, strict=True)
        ]

    def _reply(
        self,
        request: Request,
        n_prompt: int,
        new: list[int],
        elapsed: float,
        logprobs: Any,
    ) -> Reply:
        end = next((i for i, token in enumerate(new) if token in self._ends), None)
        while request.stop and end is None and new and new[-1] == self._pad:
            new.pop()  # stopped by a text while its company went on
        kept = new if end is None else new[:end]
        text = self.tokenizer.decode(kept, skip_special_tokens=True)
        cut = min((text.find(stop) for stop in request.stop if stop in text), default=None)
        tokens = None
        if logprobs is not None:
            names = self.tokenizer.batch_decode([[token] for token in kept])
            tokens = tuple((n, float(logprobs[0, i, kept[i]])) for i, n in enumerate(names))
        return Reply(
            text if cut is None else text[:cut],
            Usage(n_prompt, len(new) if end is None else end + 1),
            "length" if end is None and cut is None else "stop",
            elapsed,
            logprobs=tokens,
        )

    def _generate(self, request: Request, max_new_tokens: int, **inputs: Any) -> Any:
        from transformers import GenerationConfig

        sampling = {"temperature": request.temperature, "top_k": 0, "top_p": 1.0}
        wanted = GenerationConfig(
            max_new_tokens=max_new_tokens,
            do_sample=request.temperature > 0,
            **(sampling if request.temperature > 0 else {}),
            pad_token_id=self._pad,
            eos_token_id=sorted(self._ends) or None,
            stop_strings=list(request.stop) or None,
            return_dict_in_generate=True,
            output_logits=request.logprobs,
        )
        # what wanted leaves open would come from the folder: top-p, a repetition penalty
        own, self.model.generation_config = self.model.generation_config, GenerationConfig()
        try:
            return self.model.generate(
                generation_config=wanted,
                **({"tokenizer": self.tokenizer} if request.stop else {}),
                **inputs,
            )
        finally:
            self.model.generation_config = own

    def _rng_devices(self) -> list[int]:
        import torch

        return [torch.cuda.current_device()] if self.device.type == "cuda" else []


def special_ids(model: Any, tokenizer: Any) -> tuple[int, set[int]]:
    """The padding and the ends of a reply, from the model's settings and its tokenizer."""
    own = model.generation_config.eos_token_id
    listed = own if isinstance(own, list) else [own]
    ends = {end for end in [*listed, tokenizer.eos_token_id] if end is not None}
    pad = tokenizer.pad_token_id
    return (min(ends, default=0) if pad is None else pad), ends


def text_of(message: Message) -> str:
    """A message's text; its parts joined.

    Raises
    ------
    ChatError
        It holds an image.
    """
    content = message["content"]
    if isinstance(content, str):
        return content
    kinds = {part.get("type") for part in content} - {"text"}
    if kinds:
        raise ChatError(
            f"a message holds {', '.join(sorted(map(str, kinds)))}; this model reads text only",
            "use an endpoint whose model sees images",
        )
    return "".join(part["text"] for part in content)


def load_folder(folder: Path, dtype: str) -> tuple[Any, Any]:
    """Model and tokenizer of a local folder.

    Raises
    ------
    InputError
        It is none, or holds pickled weights only.
    """
    transformers = _transformers()
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{folder} is no Hugging Face model folder: it has no config.json",
            "name a folder with config.json, *.safetensors and the tokenizer's files",
        )
    if not any(folder.glob("*.safetensors")):
        raise InputError(
            f"{folder} holds no *.safetensors",
            "pickled weights are not loaded; convert them with save_pretrained in a safe place",
        )
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype=dtype
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the library raises many kinds
        said = " ".join(str(error).split())[:300]
        raise InputError(f"{folder} cannot be loaded: {said}") from error
    return model, tokenizer


def folder_fingerprint(folder: Path) -> str:
    """Tells the weights, tokenizer and template of one folder from another's."""
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("*.json"), *folder.glob("*.jinja")])
    return "-".join(fingerprint(path)[:8] for path in files)


def weights_fingerprint(model: Any) -> str:
    """SHA-256 over every weight's name, shape and bytes."""
    import hashlib

    import torch

    digest = hashlib.sha256()
    for name, weight in model.state_dict().items():
        digest.update(f"{name}{tuple(weight.shape)}".encode())
        digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:32]


def _transformers() -> Any:
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        raise MissingExtra(
            f"Hugging Face models need {error.name}, which is not installed",
            "pip install 'practicum[hf]'",
        ) from error
    return transformers

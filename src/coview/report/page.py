"""One HTML page that tells a study to someone who knows nothing of it.

The page is whole in itself: style, figures and pictures are inside, nothing is fetched and nothing is run,
and a content security policy in its head says so to the browser.
"""

import base64
import io
import json
import re
import shlex
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

from coview.data.images import open_image
from coview.report import figures, text
from coview.runs import write_text
from coview.theory.figures import ARM_STYLE

THUMBNAIL = 320  # pixels, the longer side of a picture
MARKS = {"o": "●", "s": "■", "^": "▲"}
# Colours of the figures that the page's style sets, lighter on a dark page.
COLOURS = {
    **{style[0].lower(): f"var(--{name})" for name, style in ARM_STYLE.items()},
    figures.CONTROL[0]: "var(--control)",
    figures.BLACK: "currentColor",
}
CONTROLS = {
    "untrained encoder": "the same network before training: what the architecture alone brings",
    "bag of words": "words counted and nothing learnt: how far shared words go",
    "shuffled pairs": "the trained good encoder, each text given to a wrong scene: must come out at chance",
}
INLINE_IMAGE = re.compile(r"data:image/(png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+=*")


def write_report(result: dict, path: str | Path) -> None:
    """Write the page of a study.

    Parameters
    ----------
    result : dict, as `coview.study.run_study` returns it
        ``examples``, if there, has ``images`` (paths or data URIs) and ``texts`` (a list for each image).
    path : of the HTML file, which appears only when it is whole

    Raises
    ------
    InputError
        A picture of the examples cannot be read.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=text.number, mean=text.mean, count="{:,}".format, many=many)
    template = environment.from_string(files("coview.report").joinpath("page.html.j2").read_text("utf-8"))
    facts = result["manifest"]
    page = template.render(
        result=result,
        arms=result["arms"],
        measure=f"mutual {result['k']}\u2011NN",  # a hyphen at which no line ends
        verdicts=[sentence.replace("-NN", "\u2011NN") for sentence in text.verdicts(result)],
        marks={name: MARKS[style[1]] for name, style in ARM_STYLE.items()},
        figures=[(figure, inline(figure)) for figure in figures.study_figures(result)],
        examples=scenes_to_look_at(result.get("examples")),
        explained=CONTROLS,
        claims={**text.CLAIMS, "relation_between": "relation of things that are there"},
        share_of=text.share_of,
        with_interval=text.with_interval,
        command=shlex.join(facts["command"]),
        versions=facts["versions"],
        made=facts["made"],
        manifest=json.dumps(facts, indent=2, ensure_ascii=False),
    )
    write_text(path, page)


def many(values: int | list[int] | None) -> str:
    """A count, or the mean of one by seed, with commas; a dash where it is not known."""
    count = text.mean(values) if isinstance(values, list) else values
    return text.ABSENT if count is None else f"{round(count):,}"


def scenes_to_look_at(examples: dict | None) -> list[tuple[str, list[str]]]:
    """Pictures as data URIs, each with its texts."""
    if not examples:
        return []
    return [
        (picture(image), texts) for image, texts in zip(examples["images"], examples["texts"], strict=True)
    ]


def picture(image: str) -> str:
    """A data URI: as it is, or of the picture at a path, made small."""
    if INLINE_IMAGE.fullmatch(image):
        return image
    opened = open_image(image)
    opened.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = io.BytesIO()
    opened.save(buffer, format="JPEG", quality=85)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def inline(figure: figures.StudyFigure):
    """A figure as an element of a page: ids of its own, the colours of the page, no namespaces.

    Returns
    -------
    markupsafe.Markup
    """
    from markupsafe import Markup

    name, root = figure.name, ElementTree.fromstring(figure.svg)
    for parent in root.iter():
        for child in [child for child in parent if _local(child.tag) in ("metadata", "style")]:
            parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(key): value for key, value in element.attrib.items()}
        if "id" in attributes:
            attributes["id"] = f"{name}-{attributes['id']}"
        if attributes.get("href", "").startswith("#"):
            attributes["href"] = f"#{name}-{attributes['href'][1:]}"
        if "clip-path" in attributes:
            attributes["clip-path"] = attributes["clip-path"].replace("#", f"#{name}-")
        if "style" in attributes:
            for colour, variable in COLOURS.items():
                attributes["style"] = attributes["style"].replace(colour, variable)
        element.attrib = attributes
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": figure.alt}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _local(name: str) -> str:
    return name.rpartition("}")[2]

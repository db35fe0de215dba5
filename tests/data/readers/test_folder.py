"""Folders and archives: where tables and images are found, and what an archive cannot do."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from coview.data.readers import ImageMissing, open_source
from coview.data.readers.stores import FolderStore, TarStore, ZipStore
from coview.errors import InputError

COLOURS = {"a.png": (200, 10, 10), "b.png": (10, 200, 10)}
TABLE = "image,caption,split\na.png,a red square,train\na.png,the square,train\nb.png,a green square,test\n"


def png(name: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 6), COLOURS[name]).save(stream, "PNG")
    return stream.getvalue()


def write_zip(path: Path, prefix: str = "", table: bool = False) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in COLOURS:
            archive.writestr(f"{prefix}{name}", png(name))
        if table:
            archive.writestr(f"{prefix}captions.csv", TABLE)
            archive.writestr("__MACOSX/captions.csv", b"\0\1")


def write_tar(path: Path, prefix: str = "", table: bool = False) -> None:
    members = {f"{prefix}{name}": png(name) for name in COLOURS} | (
        {f"{prefix}captions.csv": TABLE.encode()} if table else {}
    )
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def images_beside(folder: Path) -> str:
    for name in COLOURS:
        (folder / name).write_bytes(png(name))
    (folder / "captions.csv").write_text(TABLE)
    return str(folder)


def images_in_a_folder(folder: Path) -> str:
    (folder / "Images").mkdir()
    images_beside(folder / "Images")
    (folder / "Images" / "captions.csv").rename(folder / "captions.csv")
    return str(folder)


def images_in_a_zip(folder: Path) -> str:
    write_zip(folder / "images.zip", "wrapped/")
    (folder / "captions.csv").write_text(TABLE)
    return str(folder)


def images_in_a_tar(folder: Path) -> str:
    write_tar(folder / "images.tar", "./")
    (folder / "captions.csv").write_text(TABLE)
    return str(folder)


def images_elsewhere(folder: Path) -> str:
    (folder / "photos").mkdir()
    images_beside(folder / "photos")
    (folder / "my.csv").write_text(TABLE)
    return f"{folder}/my.csv,images={folder}/photos"


def a_bare_zip(folder: Path) -> str:
    write_zip(folder / "set.zip", "flickr/", table=True)
    return str(folder / "set.zip")


def a_bare_tar(folder: Path) -> str:
    write_tar(folder / "set.tar", table=True)
    return str(folder / "set.tar")


LAYOUTS = (
    images_beside,
    images_in_a_folder,
    images_in_a_zip,
    images_in_a_tar,
    images_elsewhere,
    a_bare_zip,
    a_bare_tar,
)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_every_layout_gives_the_same_scenes_and_images(layout, tmp_path):
    source = open_source(layout(tmp_path))
    before = sorted(tmp_path.rglob("*"))
    scenes = list(source.scenes())
    assert [(scene.id, scene.texts, scene.split) for scene in scenes] == [
        ("a.png", ("a red square", "the square"), "train"),
        ("b.png", ("a green square",), "test"),
    ]
    for scene in scenes:
        assert source.image_size(scene) == (8, 6)
        assert source.open_image(scene).getpixel((3, 3)) == COLOURS[scene.image]
    assert sorted(tmp_path.rglob("*")) == before, "nothing may be unpacked"


def test_images_alone(tmp_path):
    (tmp_path / "red").mkdir()
    (tmp_path / "red" / "a.png").write_bytes(png("a.png"))
    (tmp_path / "b.png").write_bytes(png("b.png"))
    (tmp_path / "notes.md").write_text("no image")
    source = open_source(str(tmp_path))
    scenes = list(source.scenes())
    assert [(scene.id, scene.texts) for scene in scenes] == [("b.png", ()), ("red/a.png", ())]
    assert source.open_image(scenes[1]).getpixel((0, 0)) == COLOURS["a.png"]


def test_an_unprintable_file_name_is_refused(tmp_path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.png")).write_bytes(png("a.png"))
    with pytest.raises(InputError, match=r"udcff.*control"):
        list(open_source(str(tmp_path)).scenes())


def test_a_usual_name_goes_before_other_tables(tmp_path):
    images_beside(tmp_path)
    (tmp_path / "other.csv").write_text("image,caption\nz.png,x\n")
    assert next(open_source(str(tmp_path)).scenes()).id == "a.png"


def test_names_that_lead_outside_find_nothing(tmp_path):
    (tmp_path / "secret.png").write_bytes(png("a.png"))
    inner = tmp_path / "inner"
    inner.mkdir()
    write_zip(tmp_path / "a.zip", "../")
    write_tar(tmp_path / "a.tar", "/etc/")
    for store in (FolderStore(inner), ZipStore(tmp_path / "a.zip"), TarStore(tmp_path / "a.tar")):
        for name in ("../secret.png", str(tmp_path / "secret.png"), "x/../../secret.png", "a\0.png", "", "."):
            assert store.open(name) is None
    assert ZipStore(tmp_path / "a.zip").names() == []
    assert TarStore(tmp_path / "a.tar").names() == []


def test_links_and_devices_in_a_tar_are_not_seen(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind in (
            ("link.png", tarfile.SYMTYPE),
            ("hard.png", tarfile.LNKTYPE),
            ("dev", tarfile.CHRTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    assert TarStore(tmp_path / "a.tar").names() == []


def test_the_end_of_a_name_finds_one_member_never_one_of_several(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("x/a.png", "y/b.png", "z/b.png", "z/aa.png"):
            archive.writestr(name, name)
    store = ZipStore(tmp_path / "a.zip")
    stream = store.open("a.png")
    assert stream is not None
    assert stream.read() == b"x/a.png"
    assert store.open("b.png") is None


def test_a_bomb_in_a_zip_is_refused_by_its_ratio(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", bytes(50_000_000))
    with pytest.raises(InputError, match="50,000,000 bytes"):
        ZipStore(tmp_path / "a.zip").open("a.png")


def test_an_encrypted_member_is_an_error_with_a_name(tmp_path):
    write_zip(tmp_path / "a.zip")
    data = bytearray((tmp_path / "a.zip").read_bytes())
    data[6] |= 1  # the flag "encrypted" of the first member, here and in the directory
    data[data.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.zip/a\.png: cannot be read"):
        ZipStore(tmp_path / "a.zip").open("a.png")


def test_a_missing_image_names_file_and_row(tmp_path):
    source = open_source(images_beside(tmp_path))
    (tmp_path / "b.png").unlink()
    scene = next(source.scenes("test"))
    with pytest.raises(ImageMissing, match=r"captions\.csv row 4: image 'b\.png' is not there"):
        source.open_image(scene)

"""Everything people may hand in broken, through the command line: one clear error with file and row each."""

import gzip
import io
import json
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image


def jpeg(size: int = 64) -> bytes:
    stream = io.BytesIO()
    Image.linear_gradient("L").resize((size, size)).convert("RGB").save(stream, "JPEG")
    return stream.getvalue()


def huge_png(side: int = 50_000) -> bytes:
    """The header of a PNG of side x side pixels and nothing of its content."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def write(name: str, content: bytes | str) -> Callable[[Path], str]:
    """A source of one file."""

    def make(folder: Path) -> str:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return str(folder / name)

    return make


def folder_of(options: str = "", **files: bytes | str) -> Callable[[Path], str]:
    """A source of a folder; ``__`` in a keyword is a dot, ``___`` a slash."""

    def make(folder: Path) -> str:
        for key, content in files.items():
            path = folder / "set" / key.replace("___", "/").replace("__", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        (folder / "set").mkdir(exist_ok=True)
        return str(folder / "set") + options

    return make


def rows(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def zipped(**files: bytes | str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, content in files.items():
            archive.writestr(key.replace("___", "/").replace("__", "."), content)
    return stream.getvalue()


def tarred(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for key, content in files.items():
            member = tarfile.TarInfo(key.replace("___", "/").replace("__", "."))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def damaged(data: bytes, at: float = 0.5) -> bytes:
    """Some bytes in the middle turned over."""
    place = int(len(data) * at)
    return data[:place] + bytes(byte ^ 0xFF for byte in data[place : place + 8]) + data[place + 8 :]


GOOD = {"id": "s1", "texts": ["a red ball", "the ball"]}
MANY = rows(*({"id": f"s{i}", "texts": [f"text {i} of many", f"{i * 7919}"]} for i in range(500)))
TWO_PHOTOS = "image,caption\ngood.jpg,a ball\nother.jpg,a cube\n"


@dataclass(frozen=True)
class Case:
    """A broken source, and what the error must say: where, what, and what to do."""

    make: Callable[[Path], str]
    says: tuple[str, ...]
    code: int = 3
    options: tuple[str, ...] = ()


CASES = {
    "empty jsonl": Case(write("a.jsonl", ""), ("a.jsonl", "no row")),
    "empty csv": Case(write("a.csv", ""), ("a.csv", "no row")),
    "csv with a header alone": Case(write("a.csv", "image,caption\n"), ("a.csv", "no row")),
    "empty text": Case(write("a.txt", ""), ("a.txt", "no text")),
    "blank lines alone": Case(write("a.txt", "\n \n\n"), ("a.txt", "no text")),
    "latin-1": Case(
        write("a.jsonl", rows(GOOD).encode() + b'{"id": "s2", "texts": ["caf\xe9"]}\n'),
        ("a.jsonl row 2", "byte 28", "0xe9", "UTF-8"),
    ),
    "latin-1 csv": Case(
        write("a.csv", b"image,caption\na.jpg,caf\xe9\n"), ("a.csv row 2", "byte 10", "iconv")
    ),
    "latin-1 text": Case(write("a.txt", b"a ball\n\ncaf\xe9\n"), ("a.txt row 3", "byte 4")),
    "utf-16": Case(write("a.csv", "image,caption\n".encode("utf-16")), ("a.csv row 1", "UTF-16", "UTF-8")),
    "a NUL": Case(write("a.txt", b"a ball\na \0 cube\n"), ("a.txt row 2", "character 3", "NUL")),
    "a NUL in JSON": Case(write("a.jsonl", rows({"id": "s1", "texts": ["a\0"]})), ("a.jsonl row 1", "NUL")),
    "half a surrogate pair": Case(
        write("a.jsonl", '{"id": "s1", "texts": ["\\ud83d"]}\n'), ("a.jsonl row 1", "surrogate")
    ),
    "a line without end": Case(write("a.txt", b"x" * (16 * 2**20 + 2)), ("a.txt row 1", "16 MiB")),
    "invalid JSON": Case(
        write("a.jsonl", rows(GOOD) + '{"id": "s2", "texts": ["x"]\n'),
        ("a.jsonl row 2", "column", "one JSON"),
    ),
    "JSON nested too deep": Case(
        write("a.jsonl", rows(GOOD) + "[" * 100_000), ("a.jsonl row 2", "not valid JSON")
    ),
    "a number of ten thousand digits": Case(
        write("a.jsonl", rows(GOOD) + '{"id": ' + "9" * 10_000 + "}"), ("a.jsonl row 2", "not valid JSON")
    ),
    "JSON that is no object": Case(
        write("a.jsonl", rows(GOOD, ["a"])), ("a.jsonl row 2", "not a JSON object")
    ),
    "texts that are one string": Case(
        write("a.jsonl", rows(GOOD, {"id": "s2", "texts": "a ball"})), ("a.jsonl row 2", "list of strings")
    ),
    "texts that are one string in the first row": Case(
        write("a.jsonl", rows({"id": "s2", "texts": "a ball"})), ("a.jsonl row 1", "list of strings")
    ),
    "a text that is a number": Case(
        write("a.jsonl", rows(GOOD, {"id": "s2", "texts": ["a ball", 7]})),
        ("a.jsonl row 2", "text 2 of 2", "not a number"),
    ),
    "no texts": Case(
        write("a.jsonl", rows(GOOD, {"id": "s2", "texts": []})), ("a.jsonl row 2", "at least one")
    ),
    "a blank text": Case(
        write("a.jsonl", rows(GOOD, {"id": "s2", "texts": ["a", " "]})), ("a.jsonl row 2", "text 2", "empty")
    ),
    "an empty cell": Case(write("a.csv", TWO_PHOTOS + "third.jpg,\n"), ("a.csv row 4", "the text is empty")),
    "no id": Case(write("a.jsonl", rows(GOOD, {"texts": ["a"]})), ("a.jsonl row 2", "no column 'id'")),
    "an id that is a list": Case(
        write("a.jsonl", rows(GOOD, {"id": [1], "texts": ["a"]})), ("a.jsonl row 2", "id", "a list")
    ),
    "an id of two lines": Case(
        write("a.jsonl", rows({"id": "a\nb", "texts": ["a"]})), ("a.jsonl row 1", r"'a\nb'", "control")
    ),
    "an image that is a number": Case(
        write("a.jsonl", rows({**GOOD, "image": 3})), ("a.jsonl row 1", "must be a file name")
    ),
    "an unknown split": Case(
        write("a.jsonl", rows({**GOOD, "split": "tset"})), ("a.jsonl row 1", "'tset'", "Did you mean 'test'?")
    ),
    "a split in a later row only": Case(
        write("a.jsonl", rows(GOOD, {"id": "s2", "texts": ["a"], "split": "test"})),
        ("a.jsonl row 2", "first row has none"),
    ),
    "duplicate ids": Case(
        write("a.jsonl", rows(GOOD, {"id": "s2", "texts": ["x"]}, GOOD)), ("a.jsonl row 3", "'s1'", "row 1")
    ),
    "duplicate ids of single texts": Case(
        write("a.csv", "id,text\n1,a ball\n2,a cube\n1,the ball\n"), ("a.csv row 4", "row 2", "scene=id")
    ),
    "one scene with two images": Case(
        write("a.csv", "scene,image,text\ns,a.jpg,x\ns,b.jpg,y\n"), ("a.csv row 3", "'b.jpg'", "a.csv row 2")
    ),
    "one scene in two splits": Case(
        write("a.csv", "scene,split,text\ns,train,x\ns,test,y\n"), ("a.csv row 3", "'test'", "a.csv row 2")
    ),
    "a column misspelt": Case(
        write("a.csv", "image,captoin\na.jpg,a ball\n"),
        ("a.csv row 1", "'captoin'", "Did you mean 'caption'"),
    ),
    "no header": Case(
        write("a.csv", "a.jpg,a ball\nb.jpg,a cube\n"),
        ("a.csv row 1", "no column of texts", "Call it 'caption'", "a.csv,text=a ball'"),
    ),
    "no column of scenes": Case(
        write("a.csv", "caption,mood\na ball,good\n"),
        ("a.csv row 1", "no column of scenes", "a.csv,scene=mood"),
    ),
    "a column named in vain": Case(
        lambda folder: write("a.csv", TWO_PHOTOS)(folder) + ",text=captions",
        ("a.csv row 1", "no column 'captions'", "Did you mean 'caption'?"),
    ),
    "a column named twice": Case(
        write("a.csv", "id,text,text\n1,a,b\n"), ("a.csv row 1", "two columns", "'text'")
    ),
    "a comma without quotes": Case(
        write("a.csv", "image,caption\na.jpg,a ball, red\n"),
        ("a.csv row 2", "3 columns", "header has 2", "quotation"),
    ),
    "a quotation mark left open": Case(
        write("a.csv", 'image,caption\na.jpg,a ball\nb.jpg,"a cube\nc.jpg,a cone\n'),
        ("a.csv row 3", "quotation"),
    ),
    "no gzip at all": Case(write("a.jsonl.gz", rows(GOOD)), ("a.jsonl.gz after row 0", "compress")),
    "a truncated gzip": Case(
        write("a.jsonl.gz", gzip.compress(MANY.encode())[:-400]), ("a.jsonl.gz after row", "breaks off")
    ),
    "a damaged gzip": Case(write("a.jsonl.gz", damaged(gzip.compress(MANY.encode()))), ("a.jsonl.gz", "row")),
    "no zip at all": Case(write("a.zip", "hello"), ("a.zip", "broken", "again")),
    "a truncated zip": Case(write("a.zip", zipped(captions__jsonl=MANY)[:-30]), ("a.zip", "broken")),
    "a damaged member": Case(
        write("a.zip", damaged(zipped(captions__jsonl=MANY), 0.3)), ("a.zip/captions.jsonl", "row")
    ),
    "a zip bomb": Case(
        write("a.zip", zipped(captions__txt="a ball\n" * 2_000_000)),
        ("a.zip/captions.txt", "14,000,000 bytes"),
    ),
    "no tar at all": Case(write("a.tar", "hello"), ("a.tar", "broken")),
    "a truncated tar": Case(
        write("a.tar", tarred(captions__jsonl=MANY.encode())[:3000]), ("a.tar", "broken")
    ),
    "an archive of nothing": Case(write("a.zip", zipped(notes__md="hi")), ("a.zip", "nothing", "Looked for")),
    "a compressed tar": Case(
        write("a b.tar.gz", b""), ("a b.tar.gz", "compressed tars are not read", "gunzip '", "a b.tar.gz'")
    ),
    "another compressed tar": Case(write("a.txz", b""), ("compressed tars", "then give the .tar: unxz ")),
    "an unknown ending": Case(write("a.docx", "x"), ("a.docx", "'.docx'", ".jsonl")),
    "no ending": Case(write("captions", "x"), ("captions", "no ending")),
    "no such file": Case(
        lambda folder: write("captions.csv", TWO_PHOTOS)(folder).replace("captions", "caption"),
        ("caption.csv", "no such file", "Did you mean 'captions.csv'?"),
    ),
    "a name too long": Case(lambda folder: str(folder / ("x" * 5000)), ("cannot be read",)),
    "a folder of nothing": Case(folder_of(notes__md="hi"), ("set", "nothing", "Looked for", "captions.csv")),
    "a folder with two tables": Case(
        folder_of(one__csv=TWO_PHOTOS, two__csv=TWO_PHOTOS), ("set", "one.csv, two.csv", "Name the file"), 2
    ),
    "an unknown option": Case(
        lambda folder: write("a.csv", TWO_PHOTOS)(folder) + ",txt=caption",
        ("'txt'", "Did you mean 'text'?"),
        2,
    ),
    "an option of plain text": Case(
        lambda folder: write("a.txt", "a ball")(folder) + ",lang=en", ("no options", "'lang'"), 2
    ),
    "an unknown kind of source": Case(lambda folder: "tabeltop:scenes=3", ("'tabeltop'", "'tabletop'"), 2),
    "a missing image": Case(
        folder_of(captions__csv=TWO_PHOTOS, good__jpg=jpeg()),
        ("captions.csv row 3", "'other.jpg'", "not there", "images=FOLDER"),
    ),
    "a missing image in a zip": Case(
        write("a.zip", zipped(captions__csv=TWO_PHOTOS, images___good__jpg=jpeg())),
        ("a.zip/captions.csv row 3", "'other.jpg'"),
    ),
    "no image at all, asked for": Case(
        folder_of(captions__csv=TWO_PHOTOS),
        ("2 problems", "captions.csv row 2", "'good.jpg'"),
        3,
        ("--images",),
    ),
    "an image outside": Case(
        folder_of(captions__csv="image,caption\n../set/good.jpg,x\ngood.jpg,y\n", good__jpg=jpeg()),
        ("captions.csv row 2", "'../set/good.jpg'", "'..' are never followed", "Name it 'good.jpg'"),
    ),
    "all images outside": Case(
        lambda folder: (
            write("a.jpg", jpeg())(folder)
            and folder_of(",scene=image", captions__csv="image,caption\n../a.jpg,x\n")(folder)
        ),
        ("captions.csv row 2", "'../a.jpg'", "never followed", "set,scene=image,images="),
    ),
    "a truncated JPEG": Case(
        folder_of(captions__csv=TWO_PHOTOS, good__jpg=jpeg(), other__jpg=jpeg(256)[:-900]),
        ("captions.csv row 3", "'other.jpg'", "truncated"),
        3,
        ("--images",),
    ),
    "a JPEG without content": Case(
        folder_of(captions__csv=TWO_PHOTOS, good__jpg=jpeg(), other__jpg=b""),
        ("captions.csv row 3", "'other.jpg'", "not an image"),
    ),
    "a truncated JPEG in a tar": Case(
        write(
            "a.tar", tarred(captions__csv=TWO_PHOTOS.encode(), good__jpg=jpeg(), other__jpg=jpeg(256)[:-900])
        ),
        ("a.tar/captions.csv row 3", "truncated"),
        3,
        ("--images",),
    ),
    "a PNG of 50,000 x 50,000": Case(
        folder_of(captions__csv=TWO_PHOTOS, good__jpg=jpeg(), other__jpg=huge_png()),
        ("captions.csv row 3", "'other.jpg'", "2,500 megapixels", "smaller than 64 megapixels"),
    ),
    "a PNG of 9,000 x 9,000": Case(
        folder_of(captions__csv=TWO_PHOTOS, good__jpg=jpeg(), other__jpg=huge_png(9_000)),
        ("captions.csv row 3", "9000 x 9000", "81 megapixels"),
    ),
    "a PDF called .jpg": Case(
        folder_of(captions__csv=TWO_PHOTOS, good__jpg=jpeg(), other__jpg=b"%PDF-1.7\n%%EOF"),
        ("captions.csv row 3", "'other.jpg'", "JPEG, PNG"),
    ),
    "a broken images.zip": Case(
        folder_of(captions__csv=TWO_PHOTOS, images__zip=b"PK nothing"), ("images.zip", "broken")
    ),
    "unequal files": Case(
        folder_of(train__1__en="a\nb\nc\n", train__2__en="a\nb\n"),
        ("train.2.en row 3", "train.2.en has 2 rows", "train.1.en has 3"),
    ),
    "unequal images": Case(
        folder_of(train__1__en="a\nb\n", train_images__txt="a.jpg\n"),
        ("train_images.txt has 1", "train.1.en has 2"),
    ),
    "an empty parallel file": Case(folder_of(train__1__en=""), ("train.1.en", "no row")),
    "a blank parallel line": Case(
        folder_of(train__1__en="a\nb\n", train__2__en="a\n\n"), ("train.2.en row 2", "empty")
    ),
    "duplicate images of parallel files": Case(
        folder_of(train__1__en="a\nb\n", train_images__txt="a.jpg\na.jpg\n"),
        ("train.1.en row 2", "'a.jpg'", "row 1"),
    ),
    "several languages": Case(
        folder_of(train__1__en="a\n", train__1__de="a\n"), ("set", "de, en", ",lang=de", "de+en"), 2
    ),
    "another language": Case(
        folder_of(",lang=fr", train__1__en="a\n", train__1__de="a\n"), ("'fr'", "Known: de, en"), 2
    ),
    "a split without the language": Case(
        folder_of(",lang=de", train__1__de="a\n", val__1__en="a\n"), ("'val'", "'de'")
    ),
    "a stem that is no split": Case(
        folder_of(train__1__en="a\n", tset__1__en="a\n"), ("'tset'", "Did you mean 'test'?")
    ),
    "reserved rows of another file": Case(
        folder_of(
            train__1__en="a\nb\n",
            train_images__txt="a.jpg\nb.jpg\n",
            reserved_train_rows__tsv="row\timage\n1\ta.jpg\n",
        ),
        ("reserved_train_rows.tsv", "'a.jpg'", "row 1", "'b.jpg'"),
    ),
    "reserved rows beyond the end": Case(
        folder_of(train__1__en="a\nb\n", reserved_train_rows__tsv="row\n5\n"),
        ("reserved_train_rows.tsv", "row 5 of 2"),
    ),
    "reserved rows of no split": Case(
        folder_of(train__1__en="a\n", reserved_trian_rows__tsv="row\n0\n"),
        ("reserved_trian_rows.tsv", "'trian'"),
    ),
    "reserved rows without numbers": Case(
        folder_of(train__1__en="a\n", reserved_train_rows__tsv="rows\n0\n"),
        ("reserved_train_rows.tsv row 2", "column 'row'"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_broken_input_is_named_with_file_and_row(name, tmp_path, run_cli):
    case = CASES[name]
    source = case.make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run_cli("data", "check", source, *case.options)
    assert code == case.code, err
    assert "Traceback" not in err + out
    for words in case.says:
        assert words in (out + err), f"{words!r} is not in: {out + err}"
    assert len(err.strip().splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before, "something was left behind"

    code, out, err = run_cli("data", "check", source, "--json", *case.options)
    document = json.loads(out)
    assert (code, document["ok"], document["error"]["code"]) == (case.code, False, case.code)


def test_all_problems_are_counted_first(tmp_path, run_cli):
    table = TWO_PHOTOS + "third.jpg,\nfourth.jpg,x,y\nfifth.jpg,a cone\n"
    source = folder_of(captions__csv=table, good__jpg=jpeg(), fifth__jpg=b"no image")(tmp_path)
    code, out, err = run_cli("data", "check", source)
    assert code == 3
    assert "4 problems, listed above. For the first: " in err
    assert not [line for line in out.splitlines() if line.strip() in err]
    assert "1 found" in out
    assert "1 missing, 1 broken" in out
    for row in (3, 4, 5, 6):
        assert f"captions.csv row {row}" in out


def test_control_characters_do_not_reach_the_terminal(tmp_path, run_cli):
    record = {"id": "a", "texts": ["x"], "image": "\x1b]0;title\x07.jpg", "split": "\x1b[31m"}
    for broken in (record, {**record, "split": "train"}, {"id": "\x1b[31m", "texts": ["x"]}):
        _, out, err = run_cli("data", "check", write("a.jsonl", rows(broken))(tmp_path), "--images")
        assert "\x1b" not in out + err
        assert "\x07" not in out + err

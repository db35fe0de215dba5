"""Class lists, labels and templates as files."""

import json

import numpy as np
import pytest

from coview.errors import InputError, UsageError
from coview.uses.class_list import TEMPLATES, read_classes, read_labels, read_templates

ANIMALS = "class,name,definition\nn1,dog,\nn2,polar_bear,\nn3,crane,large long-necked wading bird\n"


@pytest.fixture
def animals(tmp_path):
    (tmp_path / "classes.csv").write_text(ANIMALS)
    return read_classes(tmp_path / "classes.csv", ("{}", "a {} in the snow"))


def test_names_go_into_templates_and_definitions_stand_alone(animals):
    assert animals.ids == ("n1", "n2", "n3")
    assert animals.texts[1] == ("polar bear", "a polar bear in the snow")
    assert animals.texts[2] == ("crane - large long-necked wading bird",)
    assert animals.owner.tolist() == [0, 0, 1, 1, 2]
    assert animals.flat[3] == "a polar bear in the snow"


def test_all_three_kinds_of_file_say_the_same(tmp_path):
    (tmp_path / "a.txt").write_text("dog\n\npolar bear\n")
    (tmp_path / "a.csv").write_text("name\ndog\npolar bear\n")
    (tmp_path / "a.jsonl").write_text('{"class": "dog"}\n{"class": "polar bear"}\n')
    first, second, third = (read_classes(tmp_path / f"a.{kind}") for kind in ("txt", "csv", "jsonl"))
    assert first == second == third
    assert len(first.texts[0]) == len(TEMPLATES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("class,name\n1,dog\n2,cat\n1,fox\n", r"row 4: the class '1' is in row 2 already"),
        ("class,name\n1,crane\n2,dog\n3,crane\n", r"row 4: its text 'crane' is that of row 2"),
        ("class,name\n1,dog\n2,\n", r"row 3: column 'name' holds ''"),
        ("label,words\n1,dog\n", r"no column 'class' or 'name' among 'label', 'words'"),
        ("name\ndog\n", r"1 classes; a choice needs two"),
    ],
)
def test_broken_class_lists(content, message, tmp_path):
    (tmp_path / "classes.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        read_classes(tmp_path / "classes.csv")


def test_two_classes_of_one_name_are_told_apart_by_definitions(tmp_path):
    (tmp_path / "classes.csv").write_text("class,name,definition\n1,crane,a bird\n2,crane,a machine\n")
    assert len(read_classes(tmp_path / "classes.csv")) == 2


def test_templates(tmp_path):
    (tmp_path / "templates.txt").write_text("a photo of a {}\n\n{}\n")
    assert read_templates(tmp_path / "templates.txt") == ("a photo of a {}", "{}")
    (tmp_path / "templates.txt").write_text("\n")
    with pytest.raises(InputError, match="no template"):
        read_templates(tmp_path / "templates.txt")
    (tmp_path / "a.txt").write_text("dog\ncat\n")
    with pytest.raises(UsageError, match="'a photo' does not hold"):
        read_classes(tmp_path / "a.txt", ("a photo",))


def test_labels_are_found_by_image_in_any_order(animals, tmp_path):
    rows = [("b/1.jpg", "n2"), ("a/1.jpg", "n1"), ("c.png", "n3"), ("unused.jpg", "n1")]
    table = "".join(json.dumps({"image": image, "label": label}) + "\n" for image, label in rows)
    (tmp_path / "labels.jsonl").write_text(table)
    labels = read_labels(tmp_path / "labels.jsonl", animals, ("a/1.jpg", "b/1", "c"), 3)
    np.testing.assert_array_equal(labels, [0, 1, 2])


def test_labels_in_the_order_of_the_images(animals, tmp_path):
    (tmp_path / "labels.txt").write_text("n3\nn1\nn1\n")
    np.testing.assert_array_equal(read_labels(tmp_path / "labels.txt", animals, None, 3), [2, 0, 0])
    with pytest.raises(InputError, match="3 labels for 4 images"):
        read_labels(tmp_path / "labels.txt", animals, None, 4)


@pytest.mark.parametrize(
    ("content", "images", "message"),
    [
        ("image,label\na,n1\nb,n9\n", ("a", "b"), r"row 3: the label 'n9' is no class"),
        ("image,label\na,n1\n", ("a", "b"), r"1 of 2 images have no label: 'b'; the file names 'a'"),
        (
            "image,label\nx/a.jpg,n1\nx/b.jpg,n1\nx/c.jpg,n1\nx/d.jpg,n1\n",
            ("a", "b", "c", "d"),
            r"4 of 4 images have no label: 'a', 'b', 'c'; the file names 'x/a.jpg', 'x/b.jpg', 'x/c.jpg'\. "
            "Name images as their embeddings do, folder and all",
        ),
        ("image,label\na,n1\na,n2\n", ("a",), r"row 3: the image 'a' has two labels"),
        ("image,label\na,n1\n", None, r"the images have no ids"),
        ("image,kind\na,n1\n", ("a",), r"no column 'class' or 'label' or 'name'"),
    ],
)
def test_broken_labels(content, images, message, animals, tmp_path):
    """Symptom 21 of joining.md: an unknown class name in a file is an error and not a wrong answer."""
    (tmp_path / "labels.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        read_labels(tmp_path / "labels.csv", animals, images, len(images or ("a",)))

"""The embedded world `tabletop:`: scenes, their paintings and their descriptions."""

from coview.tabletop.describe import describe
from coview.tabletop.folder import write_tabletop
from coview.tabletop.paint import paint
from coview.tabletop.scene import Nuisance, TableObject, TableScene, make_scene
from coview.tabletop.source import TabletopSource

__all__ = [
    "Nuisance",
    "TableObject",
    "TableScene",
    "TabletopSource",
    "describe",
    "make_scene",
    "paint",
    "write_tabletop",
]

"""How aligned two spaces are: metrics, recipes, layers and the statistics that make a number believable."""

from coview.alignment.measure import Alignment, align
from coview.alignment.scene_explained import SceneExplained, scene_explained_fraction

__all__ = ["Alignment", "SceneExplained", "align", "scene_explained_fraction"]

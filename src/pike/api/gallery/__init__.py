"""The verbs for the gallery: list it, verify it here, use a winner in place of a model.

Knows how a winner becomes a drop-in. Does not know the files of an entry (`engine`).
"""

from pike.api.gallery.verbs import Verified, gallery, verify_gallery
from pike.engine.tools.gallery import COMPILE, RECIPES, GalleryEntry, chosen, keep

__all__ = ["COMPILE", "RECIPES", "GalleryEntry", "Verified", "chosen", "gallery", "keep", "verify_gallery"]

"""A NumPy array of any shape and dtype, as annotations name it."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

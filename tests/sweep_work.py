"""Work for tests of the sweep runner, in a module that worker processes can import."""

from __future__ import annotations

import os
import signal

from servecast.hardware.errors import DoesNotFitError


def half(number: int) -> float:
    """Work that knows odd numbers to be wrong and breaks at 0."""
    if number % 2:
        raise DoesNotFitError(f"{number} is odd")
    if number == 0:
        raise ZeroDivisionError("nothing to halve")
    return number / 2


def die(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number

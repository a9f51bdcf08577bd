"""PTX to machine blocks, in ordered passes; `lowering.lower` is the table of contents."""

from .launch import LaunchShape
from .lowering import Program, lower

__all__ = ["LaunchShape", "Program", "lower"]

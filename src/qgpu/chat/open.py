"""From a merged folder to a session that is ready to talk."""

from __future__ import annotations

from pathlib import Path

from ..errors import CheckpointError, UsageError
from ..merge import load
from ..merge.sidecar import NAME as MERGED
from ..qwen.sampling import Sampler, Sampling
from ..qwen.text import Text
from ..runtime.progress import Progress
from .device import Device
from .interrupts import Interrupts
from .session import Screen, Session
from .tools import Toolbox
from .writer import Chooser, Writer

BASE, LICENCE = "Qwen/Qwen3.5-2B", "Apache-2.0"
HOW = f"""a chat needs a Qwen3.5 model with the machine in front. This makes one, once:

    python -m qgpu merge {BASE} qwen3.5-2b-gpu
    python -m qgpu chat qwen3.5-2b-gpu

The first line downloads {BASE} from the Hugging Face hub (4 to 5 GB; {LICENCE}, by Alibaba Cloud's Qwen team) and writes the
merged model: 8 to 9 GB of tensors, of which about half is stored where the file system keeps holes.
Without a language model, `python -m qgpu calc "[1, 2, 3] @ [4, 5, 6]"` computes the same on the circuit alone."""


def check_model(folder: str | None) -> Path:
    """The folder of a merged model. Raises UsageError that says how to get one where it is missing or no merged model."""
    if not folder:
        raise UsageError("no model is named", why=HOW)
    path = Path(folder)
    try:
        there, merged = path.is_dir(), (path / MERGED).is_file()
    except (OSError, ValueError):
        there = merged = False
    if not there:
        raise UsageError("there is no such folder", where=folder[:200], why=HOW)
    if not merged:
        raise UsageError("this folder holds no model with a machine", where=folder[:200],
                         why="chat needs what qgpu merge writes", fix=f"python -m qgpu merge {folder[:200]} OUT, if it is a Qwen3.5 model")
    return path


def open_session(folder: Path, screen: Screen, *, mode: str = "normal", check: bool = True, sampling: Sampling | None = None,
                 most: int = 1024, thinking: bool = False, progress: Progress | None = None,
                 interrupts: Interrupts | None = None, chooser: Chooser | None = None) -> Session:
    """A session on a merged model. chooser: takes the sampler's place.

    Raises CheckpointError where the model is damaged or has no tokenizer.
    """
    merged = load(folder)
    text = Text(folder)
    talk = merged.conversation()
    end = text.id_of("<|im_end|>")
    if end is None:
        raise CheckpointError("the tokenizer has no <|im_end|>", where=str(folder), why="it is none of Qwen's chat models",
                              fix=f"merge a chat model such as {BASE}")
    writer = Writer(talk, text, {*merged.text.stop, end}, chooser or Sampler(sampling, merged.text.suppress), most)
    box = Toolbox(Device(talk.engine, check, progress), mode, merged.machine.name)
    interrupts = interrupts or Interrupts()
    return Session(writer, box, screen, interrupts.stopped, thinking, interrupts.launching)


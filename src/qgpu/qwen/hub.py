"""A checkpoint by folder, or by its name on the Hugging Face hub, downloaded on first use.

The hub's client shows progress, takes up a broken download where it stopped, and keeps what it has for next time.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from qgpu.errors import CheckpointError, UsageError

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
WANTED = ["*.json", "*.safetensors", "*.jinja", "*.txt", "LICENSE*", "NOTICE*"]
IGNORED = ["*/*"]  # other formats in folders of their own


def find(name: str | Path, revision: str | None = None) -> Path:
    """The folder of a checkpoint. name: a folder, or ``owner/name`` on the hub, downloaded on first use.

    Raises UsageError where name is neither, CheckpointError where the hub does not have it or cannot be reached.
    """
    if os.path.isdir(name):  # False, not an error, for a name that no file can have
        return Path(name)
    if not NAME.fullmatch(str(name)):
        raise UsageError(
            "there is no such folder",
            where=str(name),
            fix="give a folder with config.json in it, or a name on the Hugging Face hub such as Qwen/Qwen3.5-2B",
        )
    return _download(str(name), revision)


def _download(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    def failed(what: str, why: object, fix: str) -> CheckpointError:
        return CheckpointError(what, where=name, why=str(why).strip().split("\n")[0][:200], fix=fix)

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=WANTED, ignore_patterns=IGNORED))
    except HFValidationError as error:
        raise failed("this is neither a folder nor a name that the hub allows", error, "check the name") from None
    except GatedRepoError as error:
        raise failed("the model is gated", error, "ask for access on its page and log in with `hf auth login`") from None
    except RepositoryNotFoundError as error:
        raise failed("the hub has no such model", error, "check the name, or log in if it is private") from None
    except RevisionNotFoundError as error:
        raise failed(f"the model has no revision {revision}", error, "leave the revision out") from None
    except Exception as error:  # of many kinds, those of the HTTP library below the hub's client among them
        raise failed(
            "the model is not on this machine and could not be downloaded",
            error,
            "go online and run this again (it resumes), or download the checkpoint elsewhere and give its folder",
        ) from None

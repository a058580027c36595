"""The models of a server: which versions are loaded, in what state, and how they are replaced.

Every method runs on the event loop. Compiling runs in one other thread, so models load one at a
time. A request holds the model that it was given; a replaced model answers what waits in its queue
before its memory is given back, and no request finds a name without a model in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..ir.errors import Error
from .errors import ModelLoadError, NotFoundError, UnavailableError, to_line
from .repository import ModelFiles, Repository, Signature, VersionFiles
from .served_model import ServedModel, load_model
from .settings import Settings
from .statistics import Statistics

log = logging.getLogger("irc.serve")


@dataclass
class VersionState:
    """One version. tried: the signature of the last load, good or not. reason: why it failed, or
    why the version is not served."""

    state: str = "UNAVAILABLE"  # LOADING, READY, UNLOADING, UNAVAILABLE
    reason: str = ""
    served: ServedModel | None = None
    tried: Signature | None = None
    statistics: Statistics = field(default_factory=Statistics)


@dataclass
class Model:
    """One name of the repository."""

    name: str
    versions: dict[int, VersionState] = field(default_factory=dict[int, VersionState])
    held: bool = False  # a client unloaded it: polling leaves it alone

    def served_versions(self) -> dict[int, ServedModel]:
        """The versions that answer requests."""
        return {n: v.served for n, v in self.versions.items() if v.served is not None}


class ModelRegistry:
    """Loads, finds, replaces and unloads models."""

    def __init__(self, repository: Repository, settings: Settings) -> None:
        self.repository, self.settings = repository, settings
        self.models: dict[str, Model] = {}
        self.started = asyncio.Event()
        self._scanned: dict[str, ModelFiles] = {}
        self._lock = asyncio.Lock()
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="serve-loader")
        self._retiring = set[asyncio.Task[None]]()
        self._polling: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load what the repository holds; poll it from then on if the settings say so."""
        await self.refresh()
        self.started.set()
        if self.settings.poll_seconds > 0:
            self._polling = asyncio.create_task(self._poll())

    async def stop(self) -> None:
        """Answer what waits in the queues, then close every model."""
        if self._polling is not None:
            self._polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._polling
        async with self._lock:
            for model in self.models.values():
                for state in model.versions.values():
                    self._retire(state, "the server is shutting down")
        if self._retiring:
            await asyncio.wait(self._retiring)
        self._loader.shutdown(wait=False, cancel_futures=True)

    def find(self, name: str, version: str = "") -> ServedModel:
        """The model that answers: of the given version, or the greatest that is ready."""
        model = self.models.get(name)
        if model is None:
            known = ", ".join(sorted(self.models)[:20]) or "no models"
            raise NotFoundError("unknown model", got=name[:200], expected=known)
        served = model.served_versions()
        if version:
            number = int(version) if version.isascii() and version.isdecimal() else 0
            state = model.versions.get(number) if len(version) < 20 else None
            if state is None:
                known = ", ".join(map(str, sorted(model.versions))) or "no versions"
                raise NotFoundError(
                    f"model {name!r}: unknown version", got=version[:40], expected=known
                )
            if state.served is None:
                got = state.reason or state.state
                raise UnavailableError(f"model {name!r} version {version} is not ready", got=got)
            return state.served
        if not served:
            reasons = "; ".join(
                f"version {n}: {v.reason or v.state}" for n, v in sorted(model.versions.items())
            )
            raise UnavailableError(f"model {name!r} is not ready", got=reasons or "no versions")
        return served[max(served)]

    async def refresh(self, *, skip_changing: bool = False) -> None:
        """Bring what is loaded in line with the repository. skip_changing: leave alone what differs
        from the scan before, because it may be half copied."""
        async with self._lock:
            found = await asyncio.to_thread(self.repository.scan)
            before, self._scanned = self._scanned, found
            for name in sorted(self.models.keys() - found.keys()):
                for state in self.models[name].versions.values():
                    self._retire(state, "it is no longer in the repository")
                if not self.models[name].held:
                    del self.models[name]
            for name, files in found.items():
                model = self.models.setdefault(name, Model(name))
                if not model.held and not (skip_changing and before.get(name) != files):
                    await self._bring_up(model, files)

    async def load(self, name: str) -> None:
        """Load a model on request, or load it again if its files changed. ModelLoadError says why
        a version failed; what was served before is served on."""
        async with self._lock:
            found = await asyncio.to_thread(self.repository.scan)
            files = found.get(name)
            if files is None:
                raise NotFoundError("there is no such model in the repository", got=name[:200])
            model = self.models.setdefault(name, Model(name))
            model.held = False
            await self._bring_up(model, files, again=True)
            wanted = files.config.version_policy.choose(list(files.versions))
            bad = {n: model.versions[n].reason for n in wanted if model.versions[n].reason}
            if files.error or bad or not model.served_versions():
                reasons = "; ".join(f"version {n}: {r}" for n, r in bad.items())
                got = files.error or reasons or "no versions"
                raise ModelLoadError(f"model {name!r} could not be loaded", got=got)

    async def unload(self, name: str) -> None:
        """Unload every version of a model; what waits is answered."""
        async with self._lock:
            model = self.models.get(name)
            if model is None:
                raise NotFoundError("unknown model", got=name[:200])
            model.held = True
            for state in model.versions.values():
                self._retire(state, "unloaded")

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self.settings.poll_seconds)
            try:
                await self.refresh(skip_changing=True)
            except Exception:
                log.exception("the repository could not be read")

    async def _bring_up(self, model: Model, files: ModelFiles, *, again: bool = False) -> None:
        """Load the wanted versions that are new or changed; then unload the others, unless no
        wanted version is served."""
        if files.error is not None:
            reason = self.repository.hide_root(files.error)
            for number in files.versions or model.versions:
                model.versions.setdefault(number, VersionState()).reason = reason
            return
        wanted = files.config.version_policy.choose(list(files.versions))
        for number in wanted:
            state = model.versions.setdefault(number, VersionState())
            version = files.versions[number]
            fresh = state.served is not None and state.tried == version.signature
            if not fresh and (again or state.tried != version.signature):
                await self._load_version(model, state, version, files)
        if wanted and not any(n in wanted for n in model.served_versions()):
            return  # the last version that works stays
        for number in list(model.versions):
            if number in wanted:
                continue
            self._retire(model.versions[number], "the version policy does not choose it")
            if number not in files.versions:
                del model.versions[number]

    async def _load_version(
        self, model: Model, state: VersionState, version: VersionFiles, files: ModelFiles
    ) -> None:
        name, before = f"{model.name}/{version.version}", state.served
        state.state = "LOADING" if before is None else "READY"
        state.tried = version.signature
        log.info("loading %s", name)
        loop = asyncio.get_running_loop()
        load, serve = load_model, ServedModel
        if await loop.run_in_executor(self._loader, _is_language_model, version.path):
            # Loaded when it is needed: other models do not need its packages.
            from .openai.served_language_model import ServedLanguageModel, load_language_model

            load, serve = load_language_model, ServedLanguageModel
        try:
            loaded: Any = await loop.run_in_executor(
                self._loader, load, version, files.config, self.settings
            )
            served = serve(
                model.name,
                version.version,
                loaded,
                files.config,
                self.settings,
                state.statistics,
            )
            await loop.run_in_executor(self._loader, served.warm_up)
        except Exception as error:
            if not isinstance(error, Error):
                log.exception("loading %s failed", name)
            text = to_line(error) if isinstance(error, Error) else type(error).__name__
            state.reason = self.repository.hide_root(text)
            state.state = "UNAVAILABLE" if before is None else "READY"
            kept = "" if before is None else " (the version loaded before is served on)"
            log.warning("%s could not be loaded%s: %s", name, kept, state.reason)
            return
        state.served, state.state, state.reason = served, "READY", ""
        log.info("loaded %s in %.3f s", name, loaded.seconds)
        if loaded.not_batched and self.settings.batching is not None:
            log.info("%s is not batched: %s", name, loaded.not_batched)
        if before is not None:
            self._retire_model(before)

    def _retire(self, state: VersionState, reason: str) -> None:
        served, state.served = state.served, None
        if served is None:
            if not state.reason:
                state.reason = reason
            return
        state.state, state.reason, state.tried = "UNLOADING", reason, None

        def done(_: object) -> None:
            if state.served is None:
                state.state = "UNAVAILABLE"

        self._retire_model(served).add_done_callback(done)

    def _retire_model(self, served: ServedModel) -> asyncio.Task[None]:
        task = asyncio.create_task(served.retire())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
        return task


def _is_language_model(path: Path) -> bool:
    from ..llm.compiled_language_model import is_language_model

    return is_language_model(path)

"""A writer that acknowledges everything on stdout, one line each, as soon as the call has returned."""

import os
import sys
from pathlib import Path

from ripieno.run import RunWriter

N_EVENTS = 40


def write(folder: Path, acknowledge) -> None:
    with RunWriter(folder, system="test", kind="killed", config={"n": N_EVENTS}, durability="batch") as run:
        acknowledge("created")
        for step in range(N_EVENTS):
            run.event("step", step=step, reward=1.0)
            acknowledge(f"event {step}")
            if step % 8 == 0:
                run.artifact(f"files/{step}.bin", bytes([step]) * 5000)
                acknowledge(f"artifact {step}")
        run.finish()
        acknowledge("finished")


if __name__ == "__main__":
    write(Path(sys.argv[1]), lambda text: os.write(1, f"{text}\n".encode()))

import subprocess
import sys

import pytest

pytestmark = pytest.mark.alone

IMPORT = """
import sys, time
began = time.perf_counter()
import safetyd.client
print(time.perf_counter() - began, *sys.modules)
"""
UNWANTED = {
    "aiohttp",
    "click",
    "nats",
    "nkeys",
    "prometheus_client",
    "safetyd.bus",
    "safetyd.console",
    "safetyd.daemon",
    "safetyd.web",
}


def test_importing_the_client_brings_little_with_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
    )
    took_s, *modules = done.stdout.split()
    sys.stdout.write(f"import safetyd.client: {float(took_s) * 1000:.0f} ms\n")

    assert not UNWANTED & set(modules)

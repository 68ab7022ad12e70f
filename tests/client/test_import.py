import subprocess
import sys

IMPORT = """
import sys
import safetyd.client
print(*sys.modules)
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


def test_importing_the_client_imports_few_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
    )

    assert not UNWANTED & set(done.stdout.split())

from pathlib import Path

import pytest

from tests.history.project_folder import ProjectFolder


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path)

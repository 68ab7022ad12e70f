from pathlib import Path

import pytest

from tests.extras.file_history.project_folder import ProjectFolder


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path)

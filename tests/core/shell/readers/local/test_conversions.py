"""Pictures, films and keys: what is read, what is written, and what runs."""

import pytest

from tests.core.shell.verdicts import verdict


@pytest.mark.parametrize(
    "command",
    [
        "convert a.png -resize 50% b.jpg",
        "magick a.png png:b",
        "identify a.png",
        "magick identify a.png",
        "montage a.png b.png -tile 2x1 c.png",
        "convert a.png -write b.png c.png",
        "ffmpeg -y -i a.mp4 -c:v libx264 -an b.mp4",
        "ffmpeg -i a.mp4 -f null -",
        "ffmpeg -i https://example.com/a.mp4 a.mp3",
        "exiftool a.jpg",
        "exiftool -Artist=me a.jpg",
        "exiftool -all= -overwrite_original a.jpg",
        "ssh-keygen -lf key.pub",
        "ssh-keygen -t ed25519 -N '' -f ./key",
        "ssh-keygen -y -f key",
        "openssl rand -hex 32",
        "openssl x509 -in a.pem -noout -text",
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=x",
        "openssl s_client -connect example.com:443",
    ],
)
def test_conversions_in_the_project_pass(command: str) -> None:
    assert verdict(command) == "pass"


@pytest.mark.parametrize(
    "command",
    [
        "convert a.png /etc/x.png",
        "convert msl:x b.png",
        "convert '|ls' b.png",
        "convert a.png png:/etc/x",
        "ffmpeg -i a.mp4 rtmp://example.com/live",
        "ffmpeg -i a.mp4 $OUT",
        "ffmpeg -i a.mp4 ~/b.mp4",
        "ffmpeg -progress /etc/x -i a b.mp4",
        "exiftool -if 'system(1)' a.jpg",
        "exiftool -Artist=me ~/a.jpg",
        "ssh-keygen",
        "ssh-keygen -t rsa -f ~/.ssh/id_rsa",
        "ssh-keygen -R host",
        "openssl s_server -port 1",
        "openssl rand -out /etc/x 5",
        "openssl enc -engine x -in a",
        "openssl foo",
    ],
)
def test_what_leads_out_of_the_project_is_asked_about(command: str) -> None:
    assert verdict(command) == "ask"

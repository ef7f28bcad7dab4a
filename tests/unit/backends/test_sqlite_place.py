"""Where a store may lie: network file systems, and which mount holds a path."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.backends.sqlite.files import file_system, identity, refuse_network
from holdfast.errors import ErrorCode, UnsupportedError

MOUNTS = """\
21 26 0:19 / /sys rw,nosuid shared:7 - sysfs sysfs rw
26 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
90 26 0:44 / /mnt/share rw,relatime shared:50 - nfs4 server:/export rw,vers=4.2
91 26 0:45 / /mnt/share/local rw,relatime - ext4 /dev/vdb1 rw
92 26 0:46 / /mnt/with\\040space rw - cifs //server/x rw
93 26 0:47 / /mnt/twice rw - ext4 /dev/vdc1 rw
94 26 0:48 / /mnt/twice rw - fuse.sshfs me@host: rw
95 26 0:49 / /mnt/fuse rw master:1 propagate_from:2 - fuse.ntfs-3g /dev/sda1 rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/store.db", "ext4"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/deep/store.db", "nfs4"),
        ("/mnt/shared/store.db", "ext4"),
        ("/mnt/share/local/store.db", "ext4"),
        ("/mnt/with space/store.db", "cifs"),
        ("/mnt/twice/store.db", "fuse.sshfs"),
        ("/mnt/fuse/store.db", "fuse.ntfs-3g"),
    ],
)
def test_the_innermost_and_latest_mount_holds_a_path(path: str, kind: str) -> None:
    assert file_system(Path(path), MOUNTS) == kind


def test_a_link_counts_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/mnt/share")
    assert file_system(tmp_path / "link" / "store.db", MOUNTS) == "nfs4"


@pytest.mark.parametrize(
    "kind",
    [
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "glusterfs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone"),
    ],
)
def test_network_file_systems_are_refused(kind: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        refuse_network(Path("/data/store.db"), f"1 0 0:1 / / rw - {kind} source rw\n")
    assert caught.value.code is ErrorCode.NETWORK_FILESYSTEM
    assert caught.value.details["file_system"] == kind


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuse.ntfs-3g", "fuseblk", "sshfs"]
)
def test_local_file_systems_are_not(kind: str) -> None:
    refuse_network(Path("/data/store.db"), f"1 0 0:1 / / rw - {kind} source rw\n")


@given(
    st.text()
    | st.lists(st.sampled_from(["1", "/", " ", " - ", "nfs", "\n", "\\040", "\\999", "rw"])).map("".join)
)
def test_no_text_of_mounts_breaks_the_reading(text: str) -> None:
    assert isinstance(file_system(Path("/data/store.db"), text), str)


def test_a_name_stands_for_one_file_and_then_for_another(tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert identity(str(file)) is None
    file.touch()
    first = identity(str(file))
    (tmp_path / "other").touch()
    (tmp_path / "other").rename(file)
    assert first is not None
    assert identity(str(file)) not in (None, first)

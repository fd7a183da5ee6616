// The API's calls about images and kernels.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "mvm/agent/connection.h"
#include "mvm/build/capture.h"
#include "mvm/image/verify.h"
#include "mvm/oci/reference.h"
#include "mvm/registry/registry.h"
#include "mvm/store/blobs.h"

#include "impl.h"

namespace mvm::daemon {

static constexpr uint64_t kRoomShare = 8;  // of what is used; less room than that is little

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
  out.stop_signal = manifest.config.stop_signal;
  out.health = manifest.config.health;
  out.labels = manifest.config.labels;
  out.kernel = manifest.config.kernel;
  out.source_digest = manifest.source_digest;
  out.source_index = manifest.source_index;
  out.problem = image.problem;
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

// Tells a client how far an import is, and ends it when the client or the daemon goes.
image::Progress Daemon::Impl::progress_to(const api::ProgressSink& progress) {
  return [this, &progress](uint64_t done, std::optional<uint64_t> total, image::Phase phase) {
    pollfd stopping{stopping_.get(), POLLIN, 0};
    if (::poll(&stopping, 1, 0) > 0) throw Error(Kind::Unavailable, "the daemon is stopping");
    if (!progress({std::string(image::phase_name(phase)), done, total.value_or(0), ""}))
      throw Error(Kind::Unavailable, "the client went away");
  };
}

api::Image Daemon::Impl::imported(const image::Imported& imported, const std::string& name,
                                  const api::ProgressSink& progress) {
  for (const std::string& note : imported.notes) progress({"", 0, 0, note});
  audit_->record(audit::ImageImported{audit::Name(name), audit::DigestText(imported.image.digest)});
  log_.info("image imported", {{"name", name}, {"digest", imported.image.digest}});
  return shown(imported.image);
}

static image::ImportOptions options_of(const std::string& platform, bool drop_set_id) {
  image::ImportOptions options;
  options.drop_set_id = drop_set_id;
  if (!platform.empty()) options.selection.platform = oci::parse_platform(platform);
  return options;
}

// Layers of earlier pulls only save downloads: where the quota is almost used up, they go first.
void Daemon::Impl::make_room_for_images() {
  const store::Quota quota(options_.paths);
  const auto room = quota.room();
  if (!room || *room > quota.used() / kRoomShare) return;
  const auto freed = store::Blobs(options_.paths).prune({});
  if (freed.blobs != 0)
    log_.info("layers removed: the quota of images is almost used up",
              {{"layers", std::to_string(freed.blobs)}, {"bytes", std::to_string(freed.bytes)}});
}

api::Image Daemon::Impl::import_image(const api::ImportRequest& request,
                                      const api::ProgressSink& progress) {
  if (request.source.empty() || request.source.front() != '/')
    throw Error(Kind::Invalid, "import.source: must be an absolute path");
  const store::ImageName name = store::parse_image_name(request.name);
  make_room_for_images();
  image::ImportOptions options = options_of(request.platform, request.drop_set_id);
  if (!request.reference.empty()) options.selection.reference = request.reference;
  store::Images images(options_.paths);
  return imported(image::import_image(images, request.source, name, options, progress_to(progress)),
                  name.text(), progress);
}

// What a pulled image is called: as it was asked for, with its host; one without a tag by its
// digest.
static store::ImageName name_of(const api::PullRequest& request, const oci::Reference& reference) {
  if (!request.name.empty()) return store::parse_image_name(request.name);
  return {reference.repository(), reference.tag.empty()
                                      ? "sha256-" + reference.digest->hex().substr(0, 12)
                                      : reference.tag};
}

api::Image Daemon::Impl::pull_image(const api::PullRequest& request,
                                    const api::ProgressSink& progress) {
  const oci::Reference reference = oci::parse_reference(request.reference);
  const store::ImageName name = name_of(request, reference);
  const image::Progress tell = progress_to(progress);
  registry::Options options;
  options.settings = registry::load_settings(options_.paths.registries_file());
  options.credentials = [](std::string_view host) {
    const auto variable = [](const char* key) -> std::optional<std::string> {
      const char* value = std::getenv(key);
      return value != nullptr && *value != '\0' ? std::optional<std::string>(value) : std::nullopt;
    };
    return registry::find_credentials(registry::auth_files(variable), host);
  };
  make_room_for_images();
  const store::Blobs blobs(options_.paths);
  registry::RegistrySource source(blobs, reference, std::move(options), tell);
  store::Images images(options_.paths);
  return imported(image::import_oci(images, source, reference.text(), name,
                                    options_of(request.platform, request.drop_set_id), tell),
                  name.text(), progress);
}

api::Image Daemon::Impl::capture_image(const api::CaptureRequest& request,
                                       const api::ProgressSink& progress) {
  const Record record = snapshot(find(request.sandbox));
  agent::Connection connection =
      agent::Connection::connect(options_.paths.control_socket(record.name()), stopping_.get());
  make_room_for_images();
  store::Images images(options_.paths);
  return imported(build::capture(images, connection, request, progress_to(progress)), request.name,
                  progress);
}

api::Image Daemon::Impl::adopt_image(const api::AdoptRequest& request) {
  const store::Image image = build::adopt(store::Images(options_.paths), request);
  // Without the kernel that it came with it is to be built again.
  if (!image.manifest.config.kernel.empty())
    image::resolve_kernel(options_.paths, image.manifest.config.kernel);
  return shown(image);
}

api::Image Daemon::Impl::tag_image(const std::string& reference, const api::TagRequest& request) {
  const store::ImageName name = store::parse_image_name(request.name);
  return shown(store::Images(options_.paths).tag(reference, name));
}

api::Image Daemon::Impl::verify_image(const std::string& reference) {
  store::Images images(options_.paths);
  return shown(image::verify_image(images, reference));
}

api::PruneResult Daemon::Impl::prune_images(const api::PruneRequest& request) {
  store::Images images(options_.paths);
  const auto pruned = images.prune([this](const std::string& digest) { return users_of(digest); },
                                   request.all, request.dry_run);
  std::set<std::string> keep;
  for (const store::Image& image : images.list()) {
    const bool going = std::find(pruned.digests.begin(), pruned.digests.end(), image.digest) !=
                       pruned.digests.end();
    if (!going) keep.insert(image.manifest.layers.begin(), image.manifest.layers.end());
  }
  const auto freed = store::Blobs(options_.paths).prune(keep, request.dry_run);
  if (!request.dry_run)
    log_.info("images pruned", {{"images", std::to_string(pruned.digests.size())},
                                {"layers", std::to_string(freed.blobs)}});
  return {pruned.digests, freed.blobs, pruned.bytes + freed.bytes};
}

void Daemon::Impl::remove_image(const std::string& reference, bool force) {
  store::Images(options_.paths)
      .remove(reference, [this](const std::string& digest) { return users_of(digest); }, force);
  audit_->note(audit::ImageRemoved{audit::Name(reference)});
}

static api::Kernel shown(const image::InstalledKernel& installed) {
  if (!installed.problem.empty())
    return {installed.bundle.name, "", 0, 0, installed.is_default, installed.problem};
  const sys::Fd file = sys::open_file(installed.bundle.image, O_RDONLY);
  return {installed.bundle.name, installed.bundle.image, sys::file_size(file.get()),
          installed.bundle.modules.size(), installed.is_default};
}

std::vector<api::Kernel> Daemon::Impl::kernels() {
  std::vector<api::Kernel> out;
  for (const auto& installed : image::list_kernels(options_.paths))
    out.push_back(daemon::shown(installed));
  return out;
}

api::Kernel Daemon::Impl::import_kernel(const api::KernelImportRequest& request) {
  if (request.source.empty() || request.source.front() != '/')
    throw Error(Kind::Invalid, "kernel.source: must be an absolute path");
  if (request.of_image && request.make_default)
    throw Error(Kind::Invalid, "kernel.default: an image's kernel is not the default");
  const std::string name =
      request.of_image
          ? image::install_image_kernel(options_.paths, request.source).name
          : image::install_kernel(options_.paths, request.source, request.make_default).name;
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
  for (const store::Image& image : store::Images(options_.paths).list())
    if (image.manifest.config.kernel == name)
      users += (users.empty() ? "" : ", ") + std::string("image ") +
               (image.names.empty() ? image.digest.substr(0, store::kMinDigestPrefix)
                                    : image.names.front());
  if (!users.empty() && !force)
    throw api::ApiError(Kind::Conflict, "kernel " + printable(name) + " is in use by " + users,
                        "remove them first, or: mvm kernel rm --force " + printable(name));
  image::remove_kernel(options_.paths, name);
  log_.info("kernel removed", {{"name", name}});
}

}

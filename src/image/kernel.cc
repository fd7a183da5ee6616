#include "mvm/image/kernel.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/crypto/hash.h"
#include "mvm/crypto/random.h"
#include "mvm/json/json.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/rename.h"

#include "copy_file.h"
#include "kernel_files.h"

namespace mvm::image {

static constexpr size_t kMaxDescription = size_t{1} << 20;
static constexpr std::string_view kDefault = "default";
static constexpr std::string_view kTemporary = ".tmp-";
static constexpr std::string_view kHowToGetOne =
    "build one with scripts/build-guest-kernel, or fetch Debian's with "
    "scripts/get-distribution-kernel; both print a directory: give it to --kernel or MVM_KERNEL";

static std::string inside(const std::string& directory, const std::string& path) {
  const std::string full = directory + "/" + path;
  const sys::Fd fd = open_bundle_file(directory, path);
  if (sys::file_size(fd.get()) == 0) refuse_damaged_kernel(full + " is empty");
  return full;
}

static std::string absolute(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) throw SystemError(errno, "finding " + path);
  std::string text = resolved;
  std::free(resolved);
  return text;
}

// bundle.json, its paths as they stand there.
struct Description {
  std::string name;
  std::string image;
  std::vector<std::string> modules;
};

static Description read_description(const std::string& directory) {
  const std::string path = directory + "/bundle.json";
  if (!sys::exists(path))
    throw Error(Kind::NotFound, directory + " is no kernel bundle: it has no bundle.json; " +
                                    std::string(kHowToGetOne));
  const auto json = json::parse_object(sys::read_regular_text_file(path, kMaxDescription));
  if (!json) refuse_damaged_kernel(path + " is no JSON object");
  try {
    Description description;
    json->at("name").get_to(description.name);
    json->at("image").get_to(description.image);
    if (json->contains("modules")) json->at("modules").get_to(description.modules);
    if (const auto complaint = name_complaint(description.name))
      throw Error(Kind::Invalid, path + ": name: " + *complaint);
    if (description.modules.size() > kMaxModules)
      throw Error(Kind::Invalid, path + ": more than " + std::to_string(kMaxModules) + " modules");
    return description;
  } catch (const json::Exception&) {
    throw Error(Kind::Invalid, path + ": name and image must be text, modules a list of texts");
  }
}

KernelBundle load_bundle(const std::string& directory) {
  const std::string where = absolute(directory);
  const Description description = read_description(where);
  return while_doing("kernel bundle " + where, [&] {
    KernelBundle bundle{description.name, where, inside(where, description.image), {}};
    for (const std::string& module : description.modules)
      bundle.modules.push_back(inside(where, module));
    check_sizes(where);
    return bundle;
  });
}

// The name that data/kernels/default points at.
static std::optional<std::string> default_name(const store::Paths& paths) {
  std::string target(256, '\0');
  const std::string link = paths.kernels_dir() + "/" + std::string(kDefault);
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  if (length < 0) return std::nullopt;
  target.resize(static_cast<size_t>(length));
  if (name_complaint(target)) return std::nullopt;
  return target;
}

static std::vector<std::string> installed_names(const store::Paths& paths) {
  std::vector<std::string> names;
  if (!sys::exists(paths.kernels_dir())) return names;
  for (std::string& name : sys::list_directory(paths.kernels_dir()))
    if (name != kDefault && !name_complaint(name)) names.push_back(std::move(name));
  return names;
}

std::vector<InstalledKernel> list_kernels(const store::Paths& paths) {
  std::vector<InstalledKernel> kernels;
  const auto chosen = default_name(paths);
  for (const std::string& name : installed_names(paths)) {
    try {
      kernels.push_back({load_bundle(paths.kernels_dir() + "/" + name), name == chosen});
    } catch (const Error& error) {
      kernels.push_back({{name, "", "", {}}, name == chosen, error.message()});
    }
  }
  return kernels;
}

static KernelBundle from_path(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) throw SystemError(errno, "kernel " + path);
  if (S_ISDIR(status.st_mode)) return load_bundle(path);
  if (!S_ISREG(status.st_mode))
    throw Error(Kind::Invalid, "kernel " + path + " is neither a bundle nor a kernel image");
  if (status.st_size == 0) throw Error(Kind::Invalid, "kernel " + path + " is empty");
  const std::string full = absolute(path);
  return {full.substr(full.rfind('/') + 1), "", full, {}};
}

static std::string require_installed(const store::Paths& paths, std::string_view name) {
  if (const auto complaint = name_complaint(name))
    throw Error(Kind::Invalid, "kernel \"" + printable(name) + "\": " + *complaint);
  const std::string directory = paths.kernels_dir() + "/" + std::string(name);
  if (sys::exists(directory)) return directory;
  const std::vector<std::string> names = installed_names(paths);
  std::string message = "no kernel " + std::string(name);
  const std::vector<std::string_view> views(names.begin(), names.end());
  if (const auto near = nearest(name, views)) {
    message += "; did you mean " + *near + "?";
  } else if (names.empty()) {
    message += "; none is installed: " + std::string(kHowToGetOne);
  } else {
    message += "; installed:";
    for (const std::string& known : names) message += " " + known;
  }
  throw Error(Kind::NotFound, message);
}

static KernelBundle from_name(const store::Paths& paths, std::string_view name) {
  return load_bundle(require_installed(paths, name));
}

KernelBundle resolve_kernel(const store::Paths& paths, std::optional<std::string_view> wanted) {
  std::string text(wanted.value_or(""));
  if (text.empty())
    if (const char* variable = ::secure_getenv("MVM_KERNEL")) text = variable;
  if (text.find('/') != std::string::npos) return from_path(text);
  if (!text.empty() && text != kDefault) return from_name(paths, text);
  if (const auto chosen = default_name(paths)) return from_name(paths, *chosen);

  const std::vector<std::string> names = installed_names(paths);
  if (names.empty())
    throw Error(Kind::NotFound, "no guest kernel is installed; " + std::string(kHowToGetOne));
  const auto tuned = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return name.starts_with("tuned");
  });
  return from_name(paths, tuned != names.end() ? *tuned : names.front());
}

// bundle.json, with the paths of the files within the bundle.
static std::string description_of(const KernelBundle& bundle, const std::string& name) {
  json::Value json = {{"name", name},
                      {"image", bundle.image.substr(bundle.directory.size() + 1)},
                      {"modules", json::Value::array()}};
  for (const std::string& module : bundle.modules)
    json["modules"].push_back(module.substr(bundle.directory.size() + 1));
  return json::dump(json, 2) + "\n";
}

static void point_default_at(const store::Paths& paths, const std::string& name) {
  const std::string link = paths.kernels_dir() + "/" + std::string(kDefault);
  const std::string fresh =
      paths.kernels_dir() + "/" + crypto::random_id(std::string(kTemporary), 12);
  sys::check(::symlink(name.c_str(), fresh.c_str()), "making " + fresh);
  ScopeExit undo([&] { ::unlink(fresh.c_str()); });
  sys::check(::rename(fresh.c_str(), link.c_str()), "renaming to " + link);
  undo.release();
}

// A copy of the bundle `source` in data/kernels, as `name`.
static KernelBundle install_as(const store::Paths& paths, const KernelBundle& source,
                               const std::string& name) {
  if (name == kDefault) throw Error(Kind::Invalid, "a kernel must not be named \"default\"");
  store::ensure_private_directory(paths.kernels_dir());
  const std::string fresh =
      paths.kernels_dir() + "/" + crypto::random_id(std::string(kTemporary), 12);
  ScopeExit undo([&] {
    try {
      sys::remove_tree(fresh);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // The error that brought us here is the one to report.
    }
  });
  sys::make_directories(fresh);
  std::vector<std::string> files = source.modules;
  files.push_back(source.image);
  for (const std::string& file : files) {
    const std::string target = fresh + file.substr(source.directory.size());
    sys::make_directories(target.substr(0, target.rfind('/')));
    copy_file(file, target);
  }
  if (name == source.name)
    copy_file(source.directory + "/bundle.json", fresh + "/bundle.json");
  else
    sys::write_file_atomic(fresh + "/bundle.json", as_bytes(description_of(source, name)));
  load_bundle(fresh);
  seal_bundle(fresh, source);

  // A directory cannot be renamed over another, but the two can be exchanged.
  const std::string target = paths.kernels_dir() + "/" + name;
  if (sys::rename_to_new(fresh, target, "renaming to " + target))
    undo.release();
  else
    sys::exchange_names(fresh, target, "replacing " + target);
  sys::sync_directory(paths.kernels_dir());
  return load_bundle(target);
}

KernelBundle install_kernel(const store::Paths& paths, const std::string& directory,
                            bool make_default) {
  const KernelBundle source = load_bundle(directory);
  KernelBundle installed = install_as(paths, source, source.name);
  if (make_default || !default_name(paths)) point_default_at(paths, source.name);
  return installed;
}

KernelBundle install_image_kernel(const store::Paths& paths, const std::string& directory) {
  const KernelBundle source = load_bundle(directory);
  crypto::Sha256 hash;
  hash.update(as_bytes(description_of(source, source.name)));
  std::vector<std::string> files = source.modules;
  files.push_back(source.image);
  for (const std::string& file : files)
    hash.update(crypto::sha256_of_file(sys::open_file(file, O_RDONLY).get()));
  constexpr size_t kDigits = 16;
  const std::string name = source.name.substr(0, kMaxName - kDigits - 1) + "-" +
                           crypto::digest_hex(hash.finish()).substr(0, kDigits);
  return install_as(paths, source, name);
}

void remove_kernel(const store::Paths& paths, std::string_view name) {
  require_installed(paths, name);
  const std::string doomed =
      paths.kernels_dir() + "/" + crypto::random_id(std::string(kTemporary), 12);
  if (default_name(paths) == name)
    sys::remove_file(paths.kernels_dir() + "/" + std::string(kDefault));
  // Away from its name first, so that nobody sees half a bundle.
  sys::rename_file(paths.kernels_dir() + "/" + std::string(name), doomed);
  sys::remove_tree(doomed);
}

}

// mvm image export. The image is read here, without the daemon: it is a file of the user's own, and
// so is what is written.

#include <cerrno>
#include <chrono>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/crypto/random.h"
#include "mvm/image/export.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/rename.h"
#include "mvm/sys/uninterrupted.h"

#include "image_progress.h"

namespace mvm::cli {
namespace {

enum class Format { Tar, Archive, Layout };

Format format_of(const Arguments& arguments, const std::string& file) {
  const std::string text = arguments.value("format").value_or("");
  if (text.empty()) return file.ends_with('/') ? Format::Layout : Format::Archive;
  if (text == "tar") return Format::Tar;
  if (text == "oci-archive") return Format::Archive;
  if (text == "oci") return Format::Layout;
  throw UsageError(&arguments.command(), "--format must be tar, oci-archive or oci");
}

image::Packing packing_of(const Arguments& arguments, Format format, const std::string& file) {
  const std::string text = arguments.value("compress").value_or("");
  if (text == "none") return image::Packing::None;
  if (text == "gzip") return image::Packing::Gzip;
  if (text == "zstd") return image::Packing::Zstd;
  if (!text.empty())
    throw UsageError(&arguments.command(), "--compress must be none, gzip or zstd");
  if (format != Format::Tar) return image::Packing::Gzip;
  if (file.ends_with(".gz") || file.ends_with(".tgz")) return image::Packing::Gzip;
  if (file.ends_with(".zst")) return image::Packing::Zstd;
  return image::Packing::None;
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

[[noreturn]] void refuse_existing(const std::string& path, bool file) {
  throw Error(Kind::Conflict, printable(path) + " is there already" +
                                  (file ? "; --force replaces it" : "; name one that is not"));
}

// A file that has no name until it is whole, where the file system can do that: whatever ends us,
// nothing half is left. Else one with a name beside it.
class NewFile {
 public:
  explicit NewFile(std::string path)
      : path_(std::move(path)), temporary_(crypto::random_id(path_ + ".part-", 8)) {
    const std::string directory = parent_of(path_);
    fd_ = sys::Fd(sys::uninterrupted(
        [&] { return ::open(directory.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644); }));
    if (fd_) return;
    if (errno != EOPNOTSUPP && errno != EISDIR)
      throw SystemError(errno, "writing to " + printable(directory));
    fd_ = sys::open_file(temporary_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    named_ = true;
  }
  ~NewFile() {
    if (named_) ::unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int fd() const { return fd_.get(); }

  void keep(bool replace) {
    const std::string self = "/proc/self/fd/" + std::to_string(fd_.get());
    if (!named_) {
      sys::check(::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW),
                 "naming " + printable(temporary_));
      named_ = true;
    }
    const std::string doing = "writing " + printable(path_);
    if (replace)
      sys::check(::rename(temporary_.c_str(), path_.c_str()), doing);
    else if (!sys::rename_to_new(temporary_, path_, doing))
      refuse_existing(path_, true);
    named_ = false;
  }

 private:
  std::string path_;
  std::string temporary_;
  sys::Fd fd_;
  bool named_ = false;
};

// As it was asked for; an image may have several names, or none.
std::string name_of(const store::Image& image, const std::string& reference) {
  for (const std::string& name : image.names)
    if (name == reference || name == reference + ":latest") return name;
  return image.names.empty() ? "" : image.names.front();
}

struct Work {
  store::Images& images;
  const store::Image& image;
  Format format;
  image::ExportOptions options;
  image::Progress progress;
};

void write_to(const Work& work, int output) {
  if (work.format == Format::Tar)
    return image::export_tar(work.image, output, work.options, work.progress);
  const store::Staging room = work.images.stage();
  const sys::Fd scratch = sys::open_file(room.path(), O_RDWR | O_TMPFILE);
  image::export_oci_archive(work.image, output, scratch.get(), work.options, work.progress);
}

void write_folder(const Work& work, std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (sys::exists(path)) refuse_existing(path, false);
  const std::string unfinished = crypto::random_id(path + ".part-", 8);
  sys::check(::mkdir(unfinished.c_str(), 0755), "making folder " + printable(unfinished));
  ScopeExit undo([&] { sys::remove_tree(unfinished); });
  image::export_oci_layout(work.image, unfinished, work.options, work.progress);
  if (!sys::rename_to_new(unfinished, path, "making folder " + printable(path)))
    refuse_existing(path, false);
  undo.release();
}

}

int image_export(Context& context, const Arguments& arguments) {
  const std::string reference = *arguments.positional("IMAGE");
  const std::string file = *arguments.positional("FILE");
  const Format format = format_of(arguments, file);
  const bool to_output = file == "-";
  if (to_output && format == Format::Layout)
    throw UsageError(&arguments.command(), "a layout is a folder, not standard output");
  if (to_output && context.console.look().out_terminal)
    throw UsageError(&arguments.command(),
                     "an archive is not for a terminal; name a file, or pipe");
  const std::string path = context.absolute(file);
  const bool force = arguments.flag("force");
  if (!to_output && format != Format::Layout && !force && sys::exists(path))
    refuse_existing(path, true);

  context.paths.ensure_data();
  store::Images images(context.paths);
  const store::Image image = images.get(reference);
  const bool quiet = arguments.flag("quiet") || to_output;
  ImageProgress line(context.console, printable(reference, 80), arguments.flag("quiet"));
  const auto start = std::chrono::steady_clock::now();
  const Work work{images,
                  image,
                  format,
                  {packing_of(arguments, format, file), name_of(image, reference)},
                  [&](uint64_t done, std::optional<uint64_t> total, image::Phase phase) {
                    line.show({std::string(image::phase_name(phase)), done, total.value_or(0), ""});
                  }};
  if (to_output) {
    write_to(work, STDOUT_FILENO);
  } else if (format == Format::Layout) {
    write_folder(work, path);
  } else {
    NewFile out(path);
    write_to(work, out.fd());
    out.keep(force);
  }
  context.console.clear_progress();
  if (!quiet)
    context.console.out("image " + printable(reference, 80) + ": written to " + printable(file) +
                        " (" + seconds_since(start) + ")\n");
  return kFine;
}

}

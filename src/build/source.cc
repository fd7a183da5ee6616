#include "mvm/build/source.h"

#include <cstdlib>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/process.h"

namespace mvm::build {
namespace {

constexpr const char* kFlake = "flake.nix";

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string beside(const std::string& folder, std::string_view name) {
  return (folder == "/" ? "" : folder) + "/" + std::string(name);
}

// Without links and dots, so that places can be compared.
std::string resolved(const std::string& directory) {
  char* real = ::realpath(directory.c_str(), nullptr);
  if (real == nullptr) throw SystemError(errno, "looking for " + printable(directory));
  std::string out = real;
  std::free(real);  // NOLINT(cppcoreguidelines-no-malloc): realpath(3)'s
  if (!sys::is_directory(sys::open_file(out, O_PATH).get()))
    throw Error(Kind::Invalid, printable(directory) + " is not a folder");
  return out;
}

std::optional<std::string> git_program() {
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : split(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    if (!folder.starts_with('/')) continue;
    std::string program = std::string(folder) + "/git";
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return std::nullopt;
}

struct Said {
  sys::ExitStatus status;
  std::string out;
  std::string err;
};

// One question to git, under way: several are asked at once. What a repository's configuration
// could have it run is switched off.
class Question {
 public:
  Question(const std::string& directory, std::vector<std::string> words)
      : out_(sys::memory_file("git-out", 0)), err_(sys::memory_file("git-err", 0)) {
    const auto program = git_program();
    if (!program)
      throw Error(Kind::Unavailable, printable(directory) +
                                         " is in a git repository, and there is no git here to say "
                                         "which files belong to it; install git");
    sys::SpawnOptions options;
    options.argv = {*program,  "-C",
                    directory, "--no-optional-locks",
                    "-c",      "core.fsmonitor=false",
                    "-c",      "core.quotePath=false",
                    "-c",      "core.hooksPath=/dev/null"};
    for (std::string& word : words) options.argv.push_back(std::move(word));
    for (const char* name : {"HOME", "PATH", "XDG_CONFIG_HOME"})
      if (const char* value = std::getenv(name))
        options.env.push_back(std::string(name) + "=" + value);
    options.env.emplace_back("LC_ALL=C");
    const sys::Fd nothing = sys::open_file("/dev/null", O_RDONLY);
    options.fds = {{nothing.get(), 0}, {out_.get(), 1}, {err_.get(), 2}};
    options.die_with_parent = true;
    child_ = sys::spawn(options);
  }
  ~Question() {
    if (child_) child_.wait();
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  Said answer() {
    Said said;
    said.status = *child_.wait();
    child_ = {};
    said.out = text_of(out_, kMaxTracked);
    said.err = text_of(err_, kMaxComplaint);
    return said;
  }

 private:
  static constexpr size_t kMaxComplaint = 64 * 1024;

  static std::string text_of(const sys::Fd& file, size_t limit) {
    const uint64_t size = sys::file_size(file.get());
    if (size > limit) throw Error(Kind::Exhausted, "git says more than " + format_size(limit));
    std::string text(static_cast<size_t>(size), '\0');
    if (!sys::pread_exact(file.get(), std::as_writable_bytes(std::span(text)), 0))
      throw Error(Kind::Internal, "what git said is gone");
    return text;
  }

  sys::Fd out_;
  sys::Fd err_;
  sys::Child child_;
};

bool fine(const Said& said) { return said.status == sys::ExitStatus{}; }

std::string must(Said said, const std::string& root) {
  if (fine(said)) return std::move(said.out);
  std::string why = said.err.substr(0, said.err.find('\n'));
  throw Error(Kind::Unavailable, "asking git about " + printable(root) + ": " +
                                     (why.empty() ? said.status.text() : printable(why, 400)));
}

std::string line_of(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// The folder, at or above `directory`, that holds .git; git itself says whether it is one.
std::optional<std::string> repository_above(std::string directory) {
  while (true) {
    if (sys::exists(beside(directory, ".git"))) return directory;
    if (directory == "/") return std::nullopt;
    directory = parent_of(directory);
  }
}

void take_tracked(Source& source, std::string_view listed) {
  // "MODE OBJECT STAGE<tab>PATH": links to other repositories (submodules) have no content here.
  for (const std::string_view entry : split(listed, '\0')) {
    const size_t tab = entry.find('\t');
    if (tab == entry.npos || entry.starts_with("160000 ")) continue;
    source.tracked.emplace_hint(source.tracked.end(), entry.substr(tab + 1));
  }
}

void take_head(Source& source, const Said& head, const Said& changes) {
  if (!fine(head)) return;  // nothing was committed yet
  const std::string text = line_of(head.out);
  const size_t blank = text.find(' ');
  if (blank == text.npos) return;
  source.time =
      static_cast<int64_t>(parse_u64(std::string_view(text).substr(blank + 1)).value_or(0));
  if (fine(changes) && changes.out.empty()) source.revision = text.substr(0, blank);
}

// One name after another. That of a submodule that was not fetched is a folder's, and takes
// nothing.
void take_all_tracked(Source& source, std::string_view listed) {
  for (const std::string_view path : split(listed, '\0'))
    if (!path.empty()) source.tracked.emplace_hint(source.tracked.end(), path);
}

Source git_source(std::string root, Submodules submodules) {
  Source source;
  source.root = std::move(root);
  source.git = true;
  source.submodules = submodules == Submodules::Taken;
  Question changes(source.root, {"status", "--porcelain", "--untracked-files=no",
                                 source.submodules ? "--ignore-submodules=untracked"
                                                   : "--ignore-submodules=all"});
  Question listed(source.root,
                  {"ls-files", "-z", source.submodules ? "--recurse-submodules" : "--stage"});
  Question head(source.root, {"log", "-1", "--no-show-signature", "--format=%H %ct"});
  (source.submodules ? take_all_tracked : take_tracked)(source, must(listed.answer(), source.root));
  take_head(source, head.answer(), changes.answer());
  return source;
}

void require_tracked(const Source& source) {
  const std::string path =
      (source.subdirectory.empty() ? "" : source.subdirectory + "/") + std::string(kFlake);
  if (source.git && !source.tracked.contains(path))
    throw Error(Kind::Invalid, printable(source.flake_file()) +
                                   " is not tracked by git, so it is no part of the flake; run: "
                                   "git add " +
                                   printable(path));
}

}

std::string Source::flake_file() const {
  return beside(subdirectory.empty() ? root : beside(root, subdirectory), kFlake);
}

std::string Source::lock_file() const {
  return beside(subdirectory.empty() ? root : beside(root, subdirectory), "flake.lock");
}

std::optional<uint64_t> Source::revision_count() const {
  if (revision.empty()) return std::nullopt;
  Question shallow(root, {"rev-parse", "--is-shallow-repository"});
  Question counted(root, {"rev-list", "--count", revision});
  const std::string count = line_of(must(counted.answer(), root));
  return line_of(must(shallow.answer(), root)) == "false" ? parse_u64(count) : std::nullopt;
}

agent::TreeView Source::view() const {
  agent::TreeView view;
  if (!git) return view;
  view.mtime = time;
  view.keep = [this](const std::string& path, bool directory) {
    if (!directory) return tracked.contains(path);
    const auto first = tracked.lower_bound(path + "/");
    return first != tracked.end() && first->starts_with(path + "/");
  };
  return view;
}

Source find_source(const std::string& directory, const std::string& subdirectory,
                   Submodules submodules) {
  const std::string start = resolved(directory);
  const auto repository = repository_above(start);
  std::string place = start;
  if (subdirectory.empty()) {
    while (!sys::exists(beside(place, kFlake))) {
      if (place == "/" || !repository || place == *repository)
        throw Error(Kind::NotFound, "there is no flake.nix in " + printable(directory) +
                                        (repository ? " or above it in its repository" : ""));
      place = parent_of(place);
    }
  } else {
    place = resolved(beside(place, subdirectory));
    if (!sys::exists(beside(place, kFlake)))
      throw Error(Kind::NotFound, "there is no flake.nix in " + printable(place));
  }
  Source source;
  if (repository)
    source = git_source(*repository, submodules);
  else
    source.root = subdirectory.empty() ? place : start;
  if (place != source.root) {
    if (!place.starts_with(source.root == "/" ? "/" : source.root + "/"))
      throw Error(Kind::Invalid, printable(place) + " is outside of " + printable(source.root));
    source.subdirectory = place.substr(source.root.size() + (source.root == "/" ? 0 : 1));
  }
  require_tracked(source);
  return source;
}

Source input_source(const std::string& directory) {
  const std::string place = resolved(directory);
  const auto repository = repository_above(place);
  // Of a folder within a repository, that folder alone.
  Source source;
  source.root = place;
  if (repository) {
    Source whole = git_source(*repository, Submodules::LeftOut);
    source.git = true;
    source.time = whole.time;
    source.revision = whole.revision;
    const std::string prefix =
        place == *repository ? "" : place.substr(repository->size() + 1) + "/";
    for (const std::string& path : whole.tracked)
      if (path.starts_with(prefix)) source.tracked.emplace(path.substr(prefix.size()));
    if (*repository == "/") throw Error(Kind::Unsupported, "a repository at / is not supported");
  }
  if (!sys::exists(source.flake_file()))
    throw Error(Kind::NotFound, "there is no flake.nix in " + printable(directory));
  require_tracked(source);
  return source;
}

crypto::Digest digest_of(const Source& source) {
  crypto::Sha256 hash;
  agent::TreeReader reader(source.root, true, {}, source.view());
  Bytes piece;
  while (reader.produce(piece)) {
    hash.update(piece);
    piece.clear();
  }
  hash.update(piece);
  return hash.finish();
}

void track(const Source& source, const std::string& path) {
  if (!source.git) return;
  Question added(source.root, {"add", "--intent-to-add", "--force", "--", path});
  must(added.answer(), source.root);
}

}

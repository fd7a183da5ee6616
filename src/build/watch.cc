#include "mvm/build/watch.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::build {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

static constexpr uint32_t kEvents = IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE | IN_MOVED_FROM |
                                    IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR |
                                    IN_DONT_FOLLOW;

static std::string below(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : name.empty() ? folder : folder + "/" + name;
}

// "a", "a/b" of "a/b/c", and "".
static void add_parents(const std::string& path, std::set<std::string>& folders) {
  for (size_t slash = path.rfind('/'); slash != std::string::npos;
       slash = path.rfind('/', slash - 1)) {
    if (!folders.insert(path.substr(0, slash)).second || slash == 0) return;
  }
}

SourceWatch::SourceWatch(const std::vector<Source>& sources)
    : sources_(sources), fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (!fd_) throw SystemError(errno, "watching folders");
  for (const Source& source : sources_) {
    if (!source.git) {
      add_tree(source, "");
      continue;
    }
    std::set<std::string> folders{""};
    for (const std::string& path : source.tracked) add_parents(path, folders);
    for (const std::string& folder : folders) add_folder(source, folder, false);
    // What is added to the index, and another branch.
    add_folder(source, ".git", true);
  }
}

void SourceWatch::add_folder(const Source& source, const std::string& path, bool git) {
  if (folders_.size() >= kMaxWatched) {
    ++left_out_;
    return;
  }
  const std::string full = source.root + (path.empty() ? "" : "/" + path);
  const int watch = ::inotify_add_watch(fd_.get(), full.c_str(), kEvents);
  if (watch >= 0) {
    folders_[watch] = {&source, path, git};
    return;
  }
  // The user's limit of watches (fs.inotify.max_user_watches).
  if (errno == ENOSPC)
    ++left_out_;
  else if (errno != ENOENT && errno != ENOTDIR && errno != EACCES && errno != ELOOP)
    throw SystemError(errno, "watching " + printable(full));
}

void SourceWatch::add_tree(const Source& source, const std::string& path) {
  std::vector<std::string> left{path};
  while (!left.empty()) {
    const std::string folder = left.back();
    left.pop_back();
    add_folder(source, folder, false);
    if (left_out_ > 0) return;
    const std::string full = source.root + (folder.empty() ? "" : "/" + folder);
    try {
      for (const std::string& name : sys::list_directory(full)) {
        struct stat status{};
        if (::lstat((full + "/" + name).c_str(), &status) == 0 && S_ISDIR(status.st_mode))
          left.push_back(below(folder, name));
      }
    } catch (const Error& error) {
      // Gone, or not for us to read: then the build says so.
      if (error.kind() != Kind::NotFound && error.kind() != Kind::Denied) throw;
    }
  }
}

bool SourceWatch::counts(const Folder& folder, const std::string& name, uint32_t mask) {
  if (folder.git) return name == "index" || name == "HEAD";
  const std::string path = below(folder.path, name);
  if (folder.source->git) return folder.source->tracked.contains(path);
  if ((mask & IN_ISDIR) != 0 && (mask & (IN_CREATE | IN_MOVED_TO)) != 0)
    add_tree(*folder.source, path);
  return true;
}

void SourceWatch::read_events() {
  alignas(inotify_event) std::array<char, 16384> buffer{};
  while (true) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) throw SystemError(errno, "watching folders");
    for (size_t at = 0; at < static_cast<size_t>(got);) {
      inotify_event event{};
      std::memcpy(&event, &buffer.at(at), sizeof event);
      const std::string name =
          event.len > 0 ? std::string(&buffer.at(at + sizeof event)) : std::string();
      at += sizeof event + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) changed_ = true;
      const auto folder = folders_.find(event.wd);
      if (folder == folders_.end()) continue;
      // A copy: what is new may be added to the map.
      const Folder where = folder->second;
      if ((event.mask & IN_IGNORED) != 0) {
        folders_.erase(folder);
        continue;
      }
      if ((event.mask & (IN_DELETE_SELF | IN_MOVE_SELF)) != 0)
        changed_ = changed_ || !where.git;
      else
        changed_ = counts(where, name, event.mask) || changed_;
    }
  }
}

bool SourceWatch::wait(int interrupt, milliseconds quiet, milliseconds longest) {
  std::array<pollfd, 2> waiting{{{fd_.get(), POLLIN, 0}, {interrupt, POLLIN, 0}}};
  const auto wait_for = [&](int timeout) {
    const int ready = ::poll(waiting.data(), waiting.size(), timeout);
    if (ready < 0 && errno != EINTR) throw SystemError(errno, "waiting for a change");
    read_events();
    return ready;
  };
  read_events();
  while (!changed_) {
    wait_for(-1);
    if (waiting[1].revents != 0) return false;
  }
  const auto first = Clock::now();
  while (Clock::now() - first < longest) {
    const int ready = wait_for(static_cast<int>(quiet.count()));
    if (waiting[1].revents != 0) return false;
    if (ready == 0) break;
  }
  changed_ = false;
  return true;
}

}

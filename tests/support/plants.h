#pragma once
// What somebody may have put where mvm expects a file or a directory of its own, and the file that
// must stay as it is.

#include <array>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::test {

// A file and a directory outside of all that mvm has to do with.
class Victim {
 public:
  Victim() {
    sys::write_file_atomic(file(), as_bytes("untouched"), 0640);
    sys::make_directories(directory());
    sys::check(::stat(file().c_str(), &before_), "victim");
  }
  std::string file() const { return scratch_.path() + "/file"; }
  std::string directory() const { return scratch_.path() + "/directory"; }
  const std::string& place() const { return scratch_.path(); }
  std::string absent() const { return scratch_.path() + "/absent"; }
  bool untouched() const {
    struct stat now{};
    return ::stat(file().c_str(), &now) == 0 && now.st_mode == before_.st_mode &&
           now.st_mtim.tv_sec == before_.st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == before_.st_mtim.tv_nsec &&
           sys::read_text_file(file(), 100) == "untouched" && !sys::exists(absent()) &&
           sys::list_directory(directory()).empty();
  }

 private:
  sys::TempDir scratch_;
  struct stat before_{};
};

enum class Plant { Link, DanglingLink, DirectoryLink, Fifo, Directory, HardLink };
inline constexpr std::array kPlants{Plant::Link, Plant::DanglingLink, Plant::DirectoryLink,
                                    Plant::Fifo, Plant::Directory,    Plant::HardLink};

inline const char* plant_name(Plant plant) {
  switch (plant) {
    case Plant::Link:
      return "a link to a file";
    case Plant::DanglingLink:
      return "a link to nothing";
    case Plant::DirectoryLink:
      return "a link to a directory";
    case Plant::Fifo:
      return "a FIFO";
    case Plant::Directory:
      return "a directory";
    case Plant::HardLink:
      return "a hard link";
  }
  return "";
}

// Puts it at `path`, in the place of whatever is there.
inline void put(Plant plant, const std::string& path, const Victim& victim) {
  sys::remove_tree(path);
  const auto link_to = [&](const std::string& target) {
    sys::check(::symlink(target.c_str(), path.c_str()), "planting a link");
  };
  switch (plant) {
    case Plant::Link:
      return link_to(victim.file());
    case Plant::DanglingLink:
      return link_to(victim.absent());
    case Plant::DirectoryLink:
      return link_to(victim.directory());
    case Plant::Fifo:
      sys::check(::mkfifo(path.c_str(), 0600), "planting a FIFO");
      return;
    case Plant::Directory:
      sys::make_directories(path);
      sys::write_file_atomic(path + "/inside", as_bytes("x"));
      return;
    case Plant::HardLink:
      sys::check(::link(victim.file().c_str(), path.c_str()), "planting a hard link");
      return;
  }
}

// `act`, with each plant in turn at `path`: it does its work, or says in one line what stands
// there, or where that leads. The victim is as it was; what was at `path` comes back in the end.
template <typename Act>
void with_each_plant(const std::string& path, const Act& act) {
  const sys::TempDir aside;
  const std::string kept = aside.path() + "/kept";
  for (const Plant plant : kPlants) {
    SCOPED_TRACE(path + ": " + plant_name(plant));
    const Victim victim;
    const bool there = ::rename(path.c_str(), kept.c_str()) == 0;
    put(plant, path, victim);
    try {
      act();
    } catch (const Error& error) {
      const std::string& message = error.message();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_TRUE(message.find(path.substr(path.rfind('/') + 1)) != std::string::npos ||
                  message.find(victim.place()) != std::string::npos)
          << message;
    }
    EXPECT_TRUE(victim.untouched());
    sys::remove_tree(path);
    if (there) sys::rename_file(kept, path);
  }
}

}

#pragma once
// An image store in a directory of its own, and what the import tests say about errors and tools.

#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/image/import.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

namespace mvm::image {

class ScratchStore : public ::testing::Test {
 protected:
  ScratchStore() : paths_(scratch_.path() + "/run", scratch_.path() + "/data") {
    paths_.ensure_data();
  }

  Imported import(const std::string& source, const ImportOptions& options = {}) {
    store::Images images(paths_);
    return import_image(images, source, store::parse_image_name("test"), options);
  }

  // The store holds no image and nothing half-made.
  void expect_nothing_left() {
    EXPECT_THAT(sys::list_directory(paths_.images_dir()), ::testing::IsEmpty());
    EXPECT_THAT(store::Images(paths_).list(), ::testing::IsEmpty());
  }

  sys::TempDir scratch_;
  store::Paths paths_;
};

template <typename Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Kind::Internal, ""};
}

// Runs a host program to its end with our standard streams; -1 when there is none of that name.
inline int run_tool(std::vector<std::string> argv) {
  if (::access(argv.front().c_str(), X_OK) != 0) return -1;
  sys::SpawnOptions options;
  options.argv = std::move(argv);
  options.env = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  const sys::Fd null = sys::open_file("/dev/null", O_RDWR);
  options.fds = {{null.get(), 0}, {null.get(), 1}, {2, 2}};
  return sys::spawn(options).wait()->code;
}

// The reference checker agrees, where it is installed.
inline void expect_fsck_agrees(const std::string& image) {
  const int code = run_tool({"/usr/bin/fsck.erofs", image});
  EXPECT_TRUE(code == 0 || code == -1) << "fsck.erofs ended with " << code;
}

}

#pragma once
// The get verb: a file or a tree of the sandbox becomes an entry stream.
//
// Walks depth first with one open directory a level, reads a chunk when there is credit for it, and
// follows no link below the named place. Mounts within a tree are not entered (a copy of "/" is not
// a copy of /proc), and what is neither file, directory nor link is skipped and counted.

#include <memory>
#include <string>
#include <vector>

#include <dirent.h>

#include "mvm/proto/copy.h"
#include "mvm/sys/sparse_reader.h"

#include "channel.h"

namespace mvm::guest {

class Get final : public Stream {
 public:
  Get(Channel& channel, const proto::GetRequest& request);

  void on_frame(const proto::Frame& frame) override;
  void on_writable() override;
  void on_lost() override { channel().end({}); }

 private:
  struct Level {
    std::unique_ptr<DIR, int (*)(DIR*)> directory;
    int fd;            // the directory's, borrowed
    std::string path;  // of the directory within the tree; "" at the top
  };

  void pump();
  void produce();
  void produce_content();
  // One entry of the tree; false when it was skipped.
  bool add(int parent, const std::string& name, const std::string& path, bool follow);
  bool enter(int parent, const std::string& name, proto::Entry& entry, bool follow);
  std::string shown(const std::string& path) const;

  std::string root_;  // as it was asked for
  uint64_t mount_ = 0;
  std::vector<Level> levels_;
  sys::SparseReader file_;
  std::string file_path_;
  bool done_ = false;
  Bytes pending_;  // encoded and not yet sent: at most an entry or a chunk
  size_t pending_begin_ = 0;
  Bytes chunk_ = Bytes(size_t{60} * 1024);  // whole pages; a chunk fits a frame
  proto::CopyResult result_;
};

}

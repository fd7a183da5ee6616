#pragma once
// The put verb: an entry stream of the host becomes files.
//
// The host is not the threat here, a process of the sandbox is: one that puts a symbolic link where
// the copy is about to write, to make root write elsewhere. So below the destination nothing is
// looked up by path: each directory is opened from its parent's descriptor without following links,
// each file is written under a name of our own and renamed into place. What a reader sees of a file
// is the old or the new content, never a part.
//
// A file that takes an old one's place changes names with it, and the old one is removed. Renamed
// over it, ext4 would start to write each new file at once (auto_da_alloc), a request a file: half
// of the time that replacing 500 small files took. What ext4 does that for, that a power failure
// does not leave an empty file, is had by writing everything out when the copy has ended.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "mvm/proto/copy.h"
#include "mvm/sys/fd.h"

#include "channel.h"
#include "file_writer.h"
#include "lane.h"
#include "passwd.h"

namespace mvm::guest {

class Put final : public Stream {
 public:
  // Each holds a few MiB, in the kernel and here.
  static constexpr size_t kMaxLanes = 16;

  struct Tools {
    // Makes the kernel write what it holds to the disk, without waiting; may be empty.
    std::function<void()> write_out;
    // Where there are no lanes: empty.
    ListenLane listen_lane;
    size_t lanes = 0;  // that are open
  };
  Put(loop::Loop& loop, Channel& channel, proto::PutRequest request, Tools& tools);
  ~Put() override;

  void on_frame(const proto::Frame& frame) override;
  void on_writable() override {}
  void on_lost() override { channel().end({}); }

 private:
  // A directory on the way to the current entry; left with its metadata when the way turns.
  struct Level {
    std::string name;
    sys::Fd fd;
    bool ours = false;  // made by this copy
    proto::Entry entry;
  };

  void find_destination();
  void open_lane();
  void on_lane();
  // False when there is no more to be had for now.
  bool read_lane();
  void take(ByteView data);
  void add(proto::Entry entry);
  void add_directory(int parent, const std::string& name, proto::Entry entry);
  void add_symlink(int parent, const std::string& name, const proto::Entry& entry);
  void begin_file(int parent, const std::string& name, proto::Entry entry);
  void write_content(ByteView content);
  void finish_file();
  bool exchange();
  // The directory that holds the entry at `path`, and the entry's own name.
  std::pair<int, std::string> locate(const std::string& path);
  void leave_to(size_t depth);
  dev_t set_metadata(int fd, const proto::Entry& entry);  // the device it is on
  std::string shown(const std::string& path) const;

  loop::Loop* loop_;
  proto::PutRequest request_;
  Tools* tools_;
  Identity owner_;
  bool is_root_;
  sys::Fd parent_;    // the directory in which the copied thing goes
  std::string leaf_;  // its name there; empty: it is the directory itself
  proto::EntryDecoder decoder_;
  std::vector<Level> levels_;  // from the copied directory down
  proto::CopyResult result_;
  bool exchanged_ = false;  // an old file, at least once

  // The rest of the stream, once it was asked for.
  std::optional<Lane> lane_;
  std::unique_ptr<std::byte[]> from_lane_;  // kLaneRead

  // The file being written.
  FileWriter file_;
  int file_parent_ = -1;
  std::string file_name_;
  std::string temporary_;
  proto::Entry file_entry_;
  std::optional<dev_t> replaced_device_;  // of the regular file in its place
};

}

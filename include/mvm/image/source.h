#pragma once
// Readers of hostile sources: each walks its source once, streams file data into the writer and
// leaves the tree.

#include <functional>
#include <map>
#include <set>
#include <string>

#include "mvm/image/erofs.h"
#include "mvm/image/import.h"
#include "mvm/image/oci_source.h"
#include "mvm/image/tree.h"

namespace mvm::image {

// What was left out: a line for people -> how often.
using Notes = std::map<std::string, uint64_t>;

// Walks a directory without following symbolic links. Throws Error naming the path: Denied for what
// cannot be read, Conflict for a file that changed while it was read.
void read_directory(const std::string& path, const ImportOptions& options, const Progress& progress,
                    Tree& tree, ErofsWriter& writer, Notes& notes);

class LayerStream;

// Lays the layers of an OCI image over each other, from the lowest.
class LayerReader {
 public:
  LayerReader(const ImportOptions& options, Tree& tree, ErofsWriter& writer, Notes& notes)
      : options_(options), tree_(tree), writer_(writer), notes_(notes) {}

  // Takes the next layer. When this returns, its digests held. `tick` gets the bytes of the blob
  // read so far.
  void read(LayerStream& stream, const std::function<void(uint64_t)>& tick);
  uint64_t unpacked() const { return unpacked_; }  // bytes of tar streams so far

 private:
  const ImportOptions& options_;
  Tree& tree_;
  ErofsWriter& writer_;
  Notes& notes_;
  std::set<std::string> dropped_;  // paths of what was left out
  uint64_t unpacked_ = 0;
};

// Reads a plain tar archive out of what `next` gives, to its end. The rules of read_tar.
void read_tar_stream(const std::function<ByteView()>& next, const std::string& shown,
                     const ImportOptions& options, const Progress& progress, Tree& tree,
                     ErofsWriter& writer, Notes& notes);

// Reads a tar archive (plain or compressed) from `fd`; `shown` names it in messages. Refused, with
// the entry's name: absolute paths, "..", names that are too long, parents that are no directories
// (a symbolic link among them), hard links to what is not there. A later entry replaces an earlier
// one of its path.
void read_tar(int fd, const std::string& shown, const ImportOptions& options,
              const Progress& progress, Tree& tree, ErofsWriter& writer, Notes& notes);

}

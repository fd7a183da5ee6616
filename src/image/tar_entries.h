#pragma once
// Entries of a tar archive, one after another, into the tree: of an archive that is a whole root
// file system, or of a layer that changes what lower layers left (OCI image-spec, layer.md).
//
//   .wh.NAME        hides NAME of lower layers
//   .wh..wh..opq    hides everything that lower layers have in its directory
//
// A whiteout is one by its name, whatever kind of entry it is, and does not touch what its own
// layer holds, wherever in the layer it stands.

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <archive.h>
#include <archive_entry.h>

#include "mvm/image/import.h"
#include "mvm/image/source.h"

namespace mvm::image {

enum class Stacking { Whole, Layer };

class TarEntries {
 public:
  // `tick` is called between pieces of data. `dropped` are the paths of what was left out, for
  // links to them; it lasts for all layers of an image.
  TarEntries(archive* handle, Stacking stacking, const ImportOptions& options, Tree& tree,
             ErofsWriter& writer, Notes& notes, std::set<std::string>& dropped,
             std::function<void()> tick)
      : archive_(handle),
        stacking_(stacking),
        options_(options),
        tree_(tree),
        writer_(writer),
        notes_(notes),
        dropped_(dropped),
        tick_(std::move(tick)) {}

  // Takes an entry and its data. Throws Error{Invalid} for what is wrong with it, {Exhausted} for
  // a limit.
  void add(const std::string& name, archive_entry* entry);

 private:
  using Parts = std::span<const std::string_view>;

  std::vector<std::string_view> components(std::string_view path) const;
  NodeId parent_of(Parts parts, const Attributes& attributes);
  std::optional<NodeId> find(Parts parts) const;
  Attributes attributes_of(archive_entry* entry);
  bool take_whiteout(Parts parts);
  void add_named(Parts parts, archive_entry* entry, Attributes attributes);
  NodeId place(NodeId parent, std::string_view name, Type type, Attributes attributes);
  void make_room(NodeId parent, std::string_view name);
  void add_directory(NodeId parent, std::string_view name, Attributes attributes);
  void add_hard_link(Parts parts, std::string_view target, const Attributes& attributes);
  void add_file(archive_entry* entry, NodeId parent, std::string_view name, Attributes attributes);
  void drop(Parts parts, const char* note);
  void drain();
  template <typename Use>
  void each_block(Use use);

  archive* archive_;
  Stacking stacking_;
  const ImportOptions& options_;
  Tree& tree_;
  ErofsWriter& writer_;
  Notes& notes_;
  std::set<std::string>& dropped_;
  std::function<void()> tick_;
  uint64_t drained_ = 0;  // bytes of content without use
};

// What libarchive says, as an Error.
[[noreturn]] void fail_tar(archive* handle);

}

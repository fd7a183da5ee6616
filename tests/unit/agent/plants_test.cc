// Whatever stands where a copy out of a sandbox puts its files: no other file is touched.
#include "../../support/plants.h"

#include "mvm/agent/tree.h"

namespace mvm::agent {
namespace {

TEST(CopyOut, TouchesNothingElse) {
  using proto::EntryType;
  const sys::TempDir scratch;
  const std::string path = scratch.path() + "/name";
  for (const EntryType type : {EntryType::File, EntryType::Directory, EntryType::Symlink}) {
    for (const bool archive : {false, true}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(type)) + (archive ? ", archive" : ""));
      test::with_each_plant(path, [&] {
        proto::Entry entry;
        entry.type = type;
        entry.mode = 0666;
        entry.uid = ::geteuid();
        entry.gid = ::getegid();
        if (type == EntryType::Symlink) entry.target = "elsewhere";
        Bytes stream;
        proto::append_entry(stream, entry);
        if (type == EntryType::File) {
          proto::append_chunk(stream, as_bytes("from the guest"));
          proto::append_content_end(stream);
        }
        if (type == EntryType::Directory) {
          entry.type = EntryType::File;
          entry.path = "inside";
          proto::append_entry(stream, entry);
          proto::append_content_end(stream);
        }
        proto::append_tree_end(stream);
        TreeWriteOptions options;
        options.archive = archive;
        TreeWriter writer(scratch.path(), "name", options);
        writer.take(stream);
      });
    }
  }
}

}
}

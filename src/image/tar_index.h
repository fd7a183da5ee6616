#pragma once
// Where the members of a plain tar archive lie in its file, so that a layer within an archive is
// read in place. Headers: POSIX ustar with pax (path, size) and GNU long names.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace mvm::image {

class TarIndex {
 public:
  struct Member {
    uint64_t offset = 0;
    uint64_t size = 0;
    std::string link;  // where a symbolic link points to; else empty
  };

  // Reads the headers. Nothing when it is no tar archive, or none that an image could be in: too
  // many members, or names that such an archive has no use for. A damaged or cut off one, all of
  // whose members so far could be an image's, is Error{Invalid}.
  static std::optional<TarIndex> read(int fd);

  // A regular file of that path, symbolic links within the archive followed; nothing when there is
  // none.
  const Member* find(std::string_view path) const;

  // Whether a member of this name belongs into an image archive.
  static bool is_image_member(std::string_view path);
  // The path in a header block, if it is one: enough to judge the start of an archive.
  static std::optional<std::string> first_name(std::string_view block);

 private:
  std::map<std::string, Member, std::less<>> members_;
};

}

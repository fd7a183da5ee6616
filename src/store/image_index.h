#pragma once
// What finds images fast: names, and the sources they were made from. It can be lost: all of it is
// in files as well, and whoever opens it when it is missing or damaged makes it anew.
//
//   data/images.db      SQLite: name -> digest, source -> digest
//   data/images.names   the names once more, a line each: NAME:TAG DIGEST
//
// The second file is written inside of each transaction that changes names, so it is at most ahead
// of the first by a change that nobody was told of. Sources are in the images' manifests.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/state/database.h"
#include "mvm/store/images.h"
#include "mvm/store/paths.h"

namespace mvm::store {

bool is_image_digest(std::string_view text);  // 64 hex digits

class ImageIndex {
 public:
  explicit ImageIndex(const Paths& paths);

  std::optional<std::string> digest_of(const ImageName& name);
  std::vector<std::string> names_of(std::string_view digest);  // sorted
  std::map<std::string, std::vector<std::string>> names_by_digest();
  // Of the work that an image was made by, or of the OCI manifest or index it was made from. The
  // image may be gone.
  std::optional<std::string> made_by(std::string_view source_key);
  std::optional<std::string> made_from(std::string_view source);
  // Whether what is known of the manifest's sources is what it says. Nothing known is fine.
  bool agrees_with(const Manifest& manifest);

  // One transaction; what was not committed is undone.
  class Change {
   public:
    explicit Change(ImageIndex& index);
    void set_name(const ImageName& name, std::string_view digest);
    void remove_name(const ImageName& name);
    void remember(const Manifest& manifest);
    void forget(std::string_view digest);  // its names and sources
    void commit();

   private:
    friend class ImageIndex;
    struct Inside {};  // of a transaction that is under way
    Change(ImageIndex& index, Inside) : index_(index) {}
    void write_names();

    ImageIndex& index_;
    std::optional<state::Transaction> transaction_;
    bool named_ = false;    // names were given
    bool unnamed_ = false;  // names were taken
  };

  // Reads all of it, and makes it anew where it is damaged. Returns whether it had to be made for
  // images that were there, now or when this was opened.
  bool check();

 private:
  static state::Database open(const Paths& paths);
  void fill_once();
  void fill();
  void set_aside();

  Paths paths_;
  state::Database database_;
  bool rebuilt_ = false;
};

}

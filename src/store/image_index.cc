#include "image_index.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::store {

static constexpr size_t kDigestLength = 64;
static constexpr size_t kMaxNames = size_t{64} << 20;  // bytes of images.names
static constexpr size_t kMaxManifest = size_t{1} << 20;
static constexpr std::array<std::string_view, 1> kMigrations{
    "CREATE TABLE image_name("
    "  name TEXT NOT NULL, tag TEXT NOT NULL, digest TEXT NOT NULL,"
    "  PRIMARY KEY(name, tag)) STRICT;"
    "CREATE INDEX image_name_digest ON image_name(digest);"
    "CREATE TABLE image_source("
    "  digest TEXT PRIMARY KEY, key TEXT, manifest TEXT, list TEXT) STRICT;"
    "CREATE INDEX image_source_key ON image_source(key);"
    "CREATE INDEX image_source_manifest ON image_source(manifest);"
    "CREATE INDEX image_source_list ON image_source(list);"
    // One row once what the files say was taken in.
    "CREATE TABLE image_filled(yes INTEGER PRIMARY KEY) STRICT"};

bool is_image_digest(std::string_view text) {
  return text.size() == kDigestLength &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

state::Database ImageIndex::open(const Paths& paths) {
  auto database = state::Database::open(paths.image_index(), state::Durability::PowerLoss);
  database.migrate("images", kMigrations);
  return database;
}

static state::Database open_or(const std::function<state::Database()>& open,
                               const std::function<void()>& mend) {
  try {
    return open();
  } catch (const state::Damaged&) {
    mend();
    return open();
  }
}

ImageIndex::ImageIndex(const Paths& paths)
    : paths_(paths),
      database_(open_or([&] { return open(paths); },
                        [&] {
                          set_aside();
                          rebuilt_ = true;
                        })) {
  fill_once();
}

// Whoever comes first moves it away; those behind find another one, which is whole.
void ImageIndex::set_aside() {
  const sys::Fd lock = sys::open_file(paths_.images_dir(), O_RDONLY | O_DIRECTORY);
  while (::flock(lock.get(), LOCK_EX) != 0)
    if (errno != EINTR) throw SystemError(errno, "locking " + paths_.images_dir());
  const std::string path = paths_.image_index();
  try {
    state::Database probe = open(paths_);
    probe.check();
    return;
  } catch (const state::Damaged&) {
    sys::rename_file(path, path + ".damaged");
  }
  for (const char* suffix : {"-wal", "-shm"}) ::unlink((path + suffix).c_str());
}

void ImageIndex::fill_once() {
  const auto filled = [&] { return database_.prepare("SELECT yes FROM image_filled").step(); };
  if (filled()) return;
  state::Transaction transaction(database_);
  if (filled()) return;
  fill();
  database_.prepare("INSERT INTO image_filled VALUES(1)").run();
  transaction.commit();
}

namespace {

// NAME:TAG -> digest.
using Names = std::map<std::string, std::string>;

std::optional<Names> names_of_file(const std::string& path) {
  if (!sys::exists(path)) return std::nullopt;
  Names names;
  const std::string text = sys::read_own_text_file(path, kMaxNames);
  for (const std::string_view line : split(text, '\n')) {
    const size_t space = line.find(' ');
    if (space == line.npos || !is_image_digest(line.substr(space + 1))) continue;
    names[std::string(line.substr(0, space))] = line.substr(space + 1);
  }
  return names;
}

// What each was called at first; where several were called the same, the last one has the name.
Names names_of_manifests(const std::map<std::string, Manifest>& manifests) {
  Names names;
  for (const auto& [digest, manifest] : manifests) {
    const auto [at, fresh] = names.emplace(manifest.name, digest);
    if (!fresh && manifests.at(at->second).created < manifest.created) at->second = digest;
  }
  return names;
}

}

void ImageIndex::fill() {
  std::map<std::string, Manifest> manifests;
  for (const std::string& digest : sys::list_directory(paths_.images_dir())) {
    if (!is_image_digest(digest)) continue;
    const std::string path = paths_.images_dir() + "/" + digest + "/manifest.json";
    try {
      manifests[digest] = manifest_from_json(sys::read_own_text_file(path, kMaxManifest), path);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // A damaged image is found by its digest, and says then what is wrong with it.
    }
  }
  std::optional<Names> names;
  try {
    names = names_of_file(paths_.image_names());
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // Not readable is as if it were not there.
  }
  Change change(*this, Change::Inside{});
  for (const auto& [name, digest] : names ? *names : names_of_manifests(manifests)) {
    if (!sys::exists(paths_.images_dir() + "/" + digest)) continue;
    try {
      change.set_name(parse_image_name(name), digest);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // No name that we would have given.
    }
  }
  for (const auto& [digest, manifest] : manifests) {
    Manifest known = manifest;
    known.digest = digest;
    change.remember(known);
  }
  change.write_names();
  rebuilt_ = rebuilt_ || !manifests.empty();
}

bool ImageIndex::check() {
  // What a killed process has not renamed.
  for (const std::string& name : sys::list_directory(paths_.data()))
    if (name.starts_with("images.names.new-")) sys::remove_file(paths_.data() + "/" + name);
  try {
    database_.check();
  } catch (const state::Damaged&) {
    set_aside();
    database_ = open(paths_);
    fill_once();
    rebuilt_ = true;
  }
  return rebuilt_;
}

std::optional<std::string> ImageIndex::digest_of(const ImageName& name) {
  state::Statement row =
      database_.prepare("SELECT digest FROM image_name WHERE name = ? AND tag = ?");
  row.bind_all(std::string_view(name.name), std::string_view(name.tag));
  if (row.step()) return row.text(0);
  return std::nullopt;
}

std::vector<std::string> ImageIndex::names_of(std::string_view digest) {
  std::vector<std::string> names;
  state::Statement rows =
      database_.prepare("SELECT name || ':' || tag FROM image_name WHERE digest = ? ORDER BY 1");
  rows.bind_all(digest);
  while (rows.step()) names.push_back(rows.text(0));
  return names;
}

std::map<std::string, std::vector<std::string>> ImageIndex::names_by_digest() {
  std::map<std::string, std::vector<std::string>> names;
  state::Statement rows =
      database_.prepare("SELECT digest, name || ':' || tag FROM image_name ORDER BY 2");
  while (rows.step()) names[rows.text(0)].push_back(rows.text(1));
  return names;
}

std::optional<std::string> ImageIndex::made_by(std::string_view source_key) {
  state::Statement row =
      database_.prepare("SELECT digest FROM image_source WHERE key = ? ORDER BY digest");
  row.bind_all(source_key);
  if (row.step()) return row.text(0);
  return std::nullopt;
}

std::optional<std::string> ImageIndex::made_from(std::string_view source) {
  state::Statement row = database_.prepare(
      "SELECT digest FROM image_source WHERE manifest = ?1 OR list = ?1 ORDER BY digest");
  row.bind_all(source);
  if (row.step()) return row.text(0);
  return std::nullopt;
}

bool ImageIndex::agrees_with(const Manifest& manifest) {
  state::Statement row =
      database_.prepare("SELECT key, manifest, list FROM image_source WHERE digest = ?");
  row.bind_all(std::string_view(manifest.digest));
  // An absent one reads as empty.
  return !row.step() ||
         (row.text(0) == manifest.source_key && row.text(1) == manifest.source_digest &&
          row.text(2) == manifest.source_index);
}

ImageIndex::Change::Change(ImageIndex& index) : index_(index) {
  transaction_.emplace(index.database_);
}

void ImageIndex::Change::set_name(const ImageName& name, std::string_view digest) {
  index_.database_.prepare("INSERT OR REPLACE INTO image_name VALUES(?, ?, ?)")
      .bind_all(std::string_view(name.name), std::string_view(name.tag), digest)
      .run();
  named_ = true;
}

void ImageIndex::Change::remove_name(const ImageName& name) {
  index_.database_.prepare("DELETE FROM image_name WHERE name = ? AND tag = ?")
      .bind_all(std::string_view(name.name), std::string_view(name.tag))
      .run();
  unnamed_ = true;
}

void ImageIndex::Change::remember(const Manifest& manifest) {
  const auto known = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
  };
  index_.database_.prepare("INSERT OR REPLACE INTO image_source VALUES(?, ?, ?, ?)")
      .bind_all(std::string_view(manifest.digest), known(manifest.source_key),
                known(manifest.source_digest), known(manifest.source_index))
      .run();
}

void ImageIndex::Change::forget(std::string_view digest) {
  for (const std::string_view sql :
       {"DELETE FROM image_name WHERE digest = ?", "DELETE FROM image_source WHERE digest = ?"})
    index_.database_.prepare(sql).bind_all(digest).run();
  unnamed_ = true;
}

void ImageIndex::Change::write_names() {
  std::string text;
  state::Statement rows = index_.database_.prepare(
      "SELECT name || ':' || tag || ' ' || digest FROM image_name ORDER BY 1");
  while (rows.step()) text += rows.text(0) + '\n';
  sys::write_file_atomic(index_.paths_.image_names(), as_bytes(text));
}

void ImageIndex::Change::commit() {
  try {
    if (named_ || unnamed_) write_names();
  } catch (const Error& error) {
    // A full disk must not keep anybody from removing what fills it; a name too many in that file
    // is one without an image, which a rebuild leaves out.
    if (named_ || error.kind() != Kind::Exhausted) throw;
  }
  transaction_->commit();
}

}

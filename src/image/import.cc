#include "mvm/image/import.h"

#include <array>
#include <ctime>

#include <fcntl.h>

#include "mvm/base/error.h"
#include "mvm/crypto/hash.h"
#include "mvm/image/source.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "reading.h"

namespace mvm::image {

std::string_view phase_name(Phase phase) {
  static constexpr std::array<std::string_view, 4> kNames{"reading", "writing", "hashing",
                                                          "storing"};
  return kNames.at(static_cast<size_t>(phase));
}

static std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

Imported import_image(store::Images& images, const std::string& source,
                      const store::ImageName& name, const ImportOptions& options,
                      const Progress& progress) {
  // O_NONBLOCK: a FIFO given by mistake is refused, not waited for.
  const sys::Fd input = sys::open_file(source, O_RDONLY | O_NONBLOCK);
  const bool directory = sys::is_directory(input.get());
  if (!directory && !sys::is_regular_file(input.get()))
    throw Error(Kind::Invalid, source + " is neither a directory nor a tar archive");

  store::Staging staging = images.stage();
  const sys::Fd output = sys::open_file(staging.root(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
  const sys::Fd scratch = sys::open_file(staging.path(), O_RDWR | O_TMPFILE);

  Tree tree;
  Notes notes;
  ErofsWriter writer(output.get(), scratch.get(), options.limits.content);
  if (directory)
    read_directory(source, options, progress, tree, writer, notes);
  else
    read_tar(input.get(), source, options, progress, tree, writer, notes);

  const auto tell = [&](uint64_t done, uint64_t total, Phase phase) {
    if (progress) progress(done, total, phase);
  };
  tell(0, writer.written(), Phase::Writing);
  const ErofsSummary summary = writer.finish(tree);
  tell(summary.size, summary.size, Phase::Writing);

  store::Manifest manifest;
  Meter meter(progress, Phase::Hashing, summary.size);
  manifest.digest = crypto::digest_hex(
      crypto::sha256_of_file(output.get(), [&](uint64_t done) { meter.at(done); }));
  meter.tell(summary.size);

  manifest.name = name.text();
  manifest.created = now_text();
  manifest.source_kind = directory ? "directory" : "tar";
  manifest.source_path = source;
  manifest.size = summary.size;
  manifest.files = summary.inodes;
  manifest.content_bytes = summary.content_bytes;
  manifest.config = options.config;

  tell(0, summary.size, Phase::Storing);
  Imported imported;
  imported.existed = images.find("sha256:" + manifest.digest).has_value();
  imported.image = images.commit(std::move(staging), manifest, name);
  tell(summary.size, summary.size, Phase::Storing);
  for (const auto& [note, count] : notes)
    imported.notes.push_back(std::to_string(count) + " " + note);
  return imported;
}

}

#include "mvm/image/import.h"

#include <array>
#include <chrono>
#include <ctime>
#include <thread>

#include <fcntl.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/crypto/hash.h"
#include "mvm/image/source.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "identity.h"
#include "layer_stream.h"
#include "reading.h"

namespace mvm::image {

std::string_view phase_name(Phase phase) {
  static constexpr std::array<std::string_view, 6> kNames{"waiting", "downloading", "reading",
                                                          "writing", "hashing",     "storing"};
  return kNames.at(static_cast<size_t>(phase));
}

static std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

// A staged image: what a reader fills and finish() takes into the store.
struct Work {
  Work(store::Images& images, const ImportOptions& options)
      : store(images),
        staging(images.stage()),
        output(sys::open_file(staging.root(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)),
        scratch(sys::open_file(staging.path(), O_RDWR | O_TMPFILE)),
        writer(output.get(), scratch.get(), options.limits.content) {}

  // `manifest` says where it came from; the rest is filled in.
  Imported finish(store::Manifest manifest, const store::ImageName& name,
                  const Progress& progress) {
    const auto tell = [&](uint64_t done, uint64_t total, Phase phase) {
      if (progress) progress(done, total, phase);
    };
    tell(0, writer.written(), Phase::Writing);
    const ErofsSummary summary = writer.finish(tree);
    tell(summary.size, summary.size, Phase::Writing);

    Meter meter(progress, Phase::Hashing, summary.size);
    manifest.digest = crypto::digest_hex(
        writer.seal(identity_of(manifest.config), [&](uint64_t done) { meter.at(done); }));
    meter.tell(summary.size);

    manifest.name = name.text();
    manifest.created = now_text();
    manifest.size = summary.size;
    manifest.files = summary.inodes;
    manifest.content_bytes = summary.content_bytes;

    tell(0, summary.size, Phase::Storing);
    Imported imported;
    imported.existed = store.whole(manifest.digest);
    imported.image = store.commit(std::move(staging), manifest, name);
    tell(summary.size, summary.size, Phase::Storing);
    for (const auto& [note, count] : notes)
      imported.notes.push_back(std::to_string(count) + " " + note);
    return imported;
  }

  store::Images& store;
  store::Staging staging;
  sys::Fd output;
  sys::Fd scratch;
  Tree tree;
  Notes notes;
  ErofsWriter writer;
};

// Bounded by what the store's quota leaves, so that an import ends where that does.
template <typename Body>
static Imported in_quota(const store::Images& images, const ImportOptions& options, Body body) {
  const auto room = images.room();
  if (!room || *room >= options.limits.content) return body(options);
  if (*room == 0) images.require_room(1);
  ImportOptions bounded = options;
  bounded.limits.content = *room;
  try {
    return body(bounded);
  } catch (const TooMuchData&) {
    images.require_room(*room + 1);
    throw;  // somebody has made room meanwhile
  }
}

static Imported import_plain(store::Images& images, const sys::Fd& input, const std::string& source,
                             const store::ImageName& name, const ImportOptions& given,
                             const Progress& progress) {
  const bool directory = sys::is_directory(input.get());
  return in_quota(images, given, [&](const ImportOptions& options) {
    Work work(images, options);
    if (directory)
      read_directory(source, options, progress, work.tree, work.writer, work.notes);
    else
      read_tar(input.get(), source, options, progress, work.tree, work.writer, work.notes);
    store::Manifest manifest;
    manifest.source_kind = directory ? "directory" : "tar";
    manifest.source_path = source;
    manifest.config = options.config;
    return work.finish(std::move(manifest), name, progress);
  });
}

Imported import_image(store::Images& images, const std::string& source,
                      const store::ImageName& name, const ImportOptions& options,
                      const Progress& progress) {
  // O_NONBLOCK: a FIFO given by mistake is refused, not waited for.
  const sys::Fd input = sys::open_file(source, O_RDONLY | O_NONBLOCK);
  if (!sys::is_directory(input.get()) && !sys::is_regular_file(input.get()))
    throw Error(Kind::Invalid, source + " is neither a directory nor an archive");
  std::optional<store::Staging> room;
  const auto scratch = [&] {
    room.emplace(images.stage());
    return sys::open_file(room->path(), O_RDWR | O_TMPFILE);
  };
  const auto oci = while_doing(
      source, [&] { return open_oci_source(source, options.limits.unpacked, scratch); });
  if (oci) return import_oci(images, *oci, source, name, options, progress);
  return import_plain(images, input, source, name, options, progress);
}

static NodeId node_at(const Tree& tree, const std::string& path) {
  NodeId at = kRoot;
  for (const std::string_view part : split(path, '/')) {
    if (part.empty()) continue;
    const auto child = tree.child(at, part);
    if (!child) throw Error(Kind::Invalid, "there is no " + printable(path) + " in the archive");
    at = *child;
  }
  return at;
}

static void apply(const std::vector<PathAttributes>& attributes, Tree& tree) {
  for (const PathAttributes& wanted : attributes) {
    Node& node = tree.node(node_at(tree, wanted.path));
    if (node.type == Type::Symlink)
      throw Error(Kind::Invalid, printable(wanted.path) + " is a symbolic link, which has no mode");
    node.attributes.permissions = wanted.permissions & 07777;
    node.attributes.uid = wanted.owner.uid;
    node.attributes.gid = wanted.owner.gid;
  }
}

Imported import_tar(store::Images& images, const TarStream& stream, const store::ImageName& name,
                    const ImportOptions& given, const Progress& progress) {
  return in_quota(images, given, [&](const ImportOptions& options) {
    Work work(images, options);
    read_tar_stream(stream.next, stream.shown, options, progress, work.tree, work.writer,
                    work.notes);
    apply(stream.attributes, work.tree);
    store::Manifest manifest;
    manifest.source_kind = stream.kind;
    manifest.source_path = stream.shown;
    manifest.source_key = stream.key;
    manifest.config = options.config;
    return work.finish(std::move(manifest), name, progress);
  });
}

// What the image's bytes depend on, beside our own code.
static std::string key_of(const OciImage& image, const ImportOptions& options) {
  std::string key = image.digest.text();
  if (options.drop_set_id) key += " no-set-id";
  if (options.owner)
    key += " " + std::to_string(options.owner->uid) + ":" + std::to_string(options.owner->gid);
  return key;
}

static store::ImageConfig config_of(const oci::Config& config) {
  return {config.entrypoint, config.cmd,         config.env,    config.user,
          config.workdir,    config.stop_signal, config.labels, config.health};
}

// The layers' streams, in order. While one is read, the next one is unpacked already, as far as its
// pieces go: unpacking takes longer than reading.
class LayerStreams {
 public:
  LayerStreams(OciSource& source, const std::vector<Layer>& layers, uint64_t limit)
      : source_(source), layers_(layers), limit_(limit) {}

  // Of layer `number`, which is the next one.
  LayerStream& open(size_t number) {
    current_ = std::move(ahead_);
    if (!current_) current_ = make(number);
    tried_ = 0;
    return *current_;
  }
  // `read` bytes of the current one, which is `number`, have been read.
  void look_ahead(size_t number, uint64_t read) {
    if (ahead_ || number + 1 == layers_.size() || read - tried_ < kStep) return;
    tried_ = read;
    if (!source_.has_layer(layers_[number + 1])) return;
    try {
      ahead_ = make(number + 1);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // It is said when it is that layer's turn.
    }
  }

 private:
  static constexpr uint64_t kStep = uint64_t{1} << 20;

  std::unique_ptr<LayerStream> make(size_t number) {
    const Layer& layer = layers_[number];
    return std::make_unique<LayerStream>(source_.open_layer(layer), layer, limit_);
  }

  OciSource& source_;
  const std::vector<Layer>& layers_;
  uint64_t limit_;  // of what one of them unpacks to
  std::unique_ptr<LayerStream> current_;
  std::unique_ptr<LayerStream> ahead_;
  uint64_t tried_ = 0;
};

static void read_layers(OciSource& source, const OciImage& image, const ImportOptions& options,
                        const Progress& progress, Work& work) {
  uint64_t total = 0;
  for (const Layer& layer : image.layers) total += layer.size;
  Meter meter(progress, Phase::Reading, total != 0 ? std::optional(total) : std::nullopt);
  LayerReader reader(options, work.tree, work.writer, work.notes);
  LayerStreams streams(source, image.layers, options.limits.unpacked);
  uint64_t before = 0;
  for (size_t i = 0; i < image.layers.size(); ++i) {
    const std::string doing = "layer " + std::to_string(i + 1) + " of " +
                              std::to_string(image.layers.size()) + " (" +
                              printable(image.layers[i].place, 80) + ")";
    while_doing(doing, [&] {
      try {
        LayerStream& stream = streams.open(i);
        reader.read(stream, [&](uint64_t done) {
          meter.at(before + done);
          streams.look_ahead(i, done);
        });
        before += stream.consumed();
      } catch (const Error& error) {
        if (error.kind() != Kind::Invalid || !source.distrust(image.layers[i])) throw;
        throw Error(Kind::Invalid, error.message() +
                                       "; it was kept from an earlier pull and is removed, so that "
                                       "the next pull downloads it again");
      }
    });
  }
  meter.tell(before);
}

// The right to do the work, or what somebody else made of it meanwhile.
static std::optional<store::SourceLock> wait_for_turn(store::Images& images, const std::string& key,
                                                      const store::ImageName& name,
                                                      std::optional<store::Image>& made,
                                                      const Progress& progress) {
  // The lock is another process's or thread's, which tells nobody when it lets go.
  static constexpr std::chrono::milliseconds kLook{20};
  while (true) {
    auto lock = images.lock_source(key);
    made = images.adopt(key, name);
    if (lock || made) return lock;
    if (progress) progress(0, std::nullopt, Phase::Waiting);
    std::this_thread::sleep_for(kLook);
  }
}

Imported import_oci(store::Images& images, OciSource& source, const std::string& shown,
                    const store::ImageName& name, const ImportOptions& given,
                    const Progress& progress) {
  return while_doing(shown, [&] {
    const OciImage image = source.resolve(given.selection);
    const std::string key = key_of(image, given);
    Imported imported;
    std::optional<store::Image> made;
    const auto lock = wait_for_turn(images, key, name, made, progress);
    if (made) {
      imported.image = std::move(*made);
      imported.existed = true;
      return imported;
    }
    return in_quota(images, given, [&](const ImportOptions& options) {
      Work work(images, options);
      read_layers(source, image, options, progress, work);
      store::Manifest manifest;
      manifest.source_kind = source.kind();
      manifest.source_path = shown;
      manifest.source_digest = image.digest.text();
      if (image.index) manifest.source_index = image.index->text();
      manifest.source_key = key;
      for (const Layer& layer : image.layers)
        manifest.layers.push_back((layer.digest ? *layer.digest : layer.diff_id).text());
      manifest.config = config_of(image.config);
      return work.finish(std::move(manifest), name, progress);
    });
  });
}

}

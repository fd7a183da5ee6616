#include "mvm/registry/registry.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include <sys/resource.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/crypto/hash.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "endpoint.h"

namespace mvm::registry {

using std::chrono::milliseconds;

static constexpr milliseconds kMaxBackoff{8'000};
static constexpr milliseconds kTick{100};
// Of all downloads but the first. Where the processor is what there is too little of, the first
// layer comes first, and then unpacking goes before downloading what is not needed yet.
static constexpr int kNice = 10;

static bool worth_another_try(const Error& error) {
  return error.kind() == Kind::Unavailable || error.kind() == Kind::Timeout;
}

// A layer on its way.
struct Download {
  enum class State { Waiting, Running, Here, Failed };
  image::Layer layer;
  State state = State::Waiting;
  bool verified = false;  // it has come just now, and not in an earlier pull
  sys::Fd file;           // its bytes, while they are not yet in the store
  std::exception_ptr failure;
};

struct RegistrySource::Impl {
  Impl(const store::Blobs& store, oci::Reference wanted, Options given, image::Progress tell)
      : blobs(store),
        held(store.hold()),
        reference(std::move(wanted)),
        options(std::move(given)),
        progress(std::move(tell)),
        owner(std::this_thread::get_id()) {
    TransportOptions network = options.transport;
    network.check = [this] { check(); };
    transport = std::make_unique<Transport>(std::move(network));
    make_endpoints();
  }
  ~Impl() {
    stopping = true;
    {
      const std::lock_guard lock(mutex);
      changed.notify_all();
    }
    for (std::thread& thread : threads) thread.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void check() const {
    if (stopping) throw Error(Kind::Unavailable, "the pull was given up");
    if (std::this_thread::get_id() == owner) tell();
  }
  void tell() const {
    if (progress)
      progress(done, total != 0 ? std::optional(total) : std::nullopt, image::Phase::Downloading);
  }
  // Sleeps, but not past the end of the pull.
  void pause(milliseconds time) const {
    for (milliseconds slept{0}; slept < time; slept += kTick) {
      check();
      std::this_thread::sleep_for(std::min(kTick, time - slept));
    }
  }

  void make_endpoints() {
    const auto add = [&](const Url& base, const std::string& known_as) {
      endpoints.push_back(std::make_unique<Endpoint>(base, known_as, reference.path, *transport,
                                                     options.credentials));
    };
    if (const auto mirrors = options.settings.mirrors.find(reference.host);
        mirrors != options.settings.mirrors.end())
      for (const std::string& mirror : mirrors->second) {
        const Url url = parse_url(mirror);
        add(url, url.host);
      }
    const std::string host =
        reference.host == oci::kDefaultHost ? "registry-1.docker.io" : reference.host;
    add(parse_url("https://" + host), reference.host);
    // Registries on this host may do without TLS; those that have it are spoken to with it.
    if (oci::is_loopback(host)) add(parse_url("http://" + host), reference.host);
  }

  struct Document {
    std::string text;
    std::string media_type;
  };

  // A small document, whole; retried.
  Document fetch_document(Endpoint& endpoint, const std::string& rest) {
    milliseconds wait = options.backoff;
    for (int tries = 1;; ++tries) {
      try {
        Document document;
        endpoint.get(rest, {{"Accept", oci::accepted_media_types()}},
                     {[&](const http::ResponseHead& head) {
                        // Some say "application/json" about everything.
                        if (const auto* type = http::find(head.headers, "Content-Type");
                            type != nullptr && type->starts_with("application/vnd."))
                          document.media_type = type->substr(0, type->find(';'));
                        return true;
                      },
                      [&](ByteView piece) {
                        if (document.text.size() + piece.size() > oci::kMaxDocument)
                          throw Error(Kind::Exhausted, "registry " + endpoint.base().host +
                                                           ": a document of more than " +
                                                           format_size(oci::kMaxDocument));
                        document.text += as_text(piece);
                        return true;
                      }});
        return document;
      } catch (const NoTls&) {
        throw;
      } catch (const Error& error) {
        if (!worth_another_try(error) || tries == kMaxTries) throw;
      }
      pause(wait);
      wait = std::min(wait * 2, kMaxBackoff);
    }
  }

  // The first endpoint that has it becomes the one in use. A mirror may lack what the registry has.
  Document fetch_manifest(const std::string& name) {
    std::string failures;
    for (size_t i = 0; i < endpoints.size(); ++i) {
      try {
        Document document = fetch_document(*endpoints[i], "manifests/" + name);
        chosen = i;
        return document;
      } catch (const NoTls&) {
        if (i + 1 == endpoints.size()) throw;
      } catch (Error& error) {
        const bool last = i + 1 == endpoints.size();
        const bool plain_is_next =
            !last && endpoints[i + 1]->base().host == endpoints[i]->base().host;
        // What goes wrong with TLS is no reason to do without it.
        if (last || plain_is_next) {
          if (!failures.empty()) error.add_context(failures);
          throw;
        }
        failures += (failures.empty() ? "" : "; ") + error.message();
      }
    }
    throw Error(Kind::Internal, "no registry to ask");
  }

  // One try to get what is missing. `have` bytes are in the file and in the hash.
  void fetch_rest(Endpoint& endpoint, const image::Layer& layer, int fd, uint64_t& have,
                  crypto::Sha256& hash) {
    http::Headers headers;
    if (have > 0) headers.push_back({"Range", "bytes=" + std::to_string(have) + "-"});
    const auto broken = [&](const std::string& why) {
      throw Error(Kind::Invalid, "registry " + endpoint.base().host + ": " + why);
    };
    endpoint.get(
        "blobs/" + layer.digest->text(), headers,
        {[&](const http::ResponseHead& head) {
           if (head.status == 206) {
             const auto* range = http::find(head.headers, "Content-Range");
             if (range == nullptr || !range->starts_with("bytes " + std::to_string(have) + "-"))
               broken("it sent another part than was asked for");
           } else if (have > 0) {  // it knows no ranges: from the start
             done -= have;
             have = 0;
             hash = crypto::Sha256();
             sys::resize_file(fd, 0, "emptying a download");
           }
           return true;
         },
         [&](ByteView piece) {
           if (piece.size() > layer.size - have)
             broken("a layer is longer than the " + std::to_string(layer.size) +
                    " bytes that its manifest promises");
           sys::pwrite_all(fd, piece, have);
           hash.update(piece);
           have += piece.size();
           done += piece.size();
           return true;
         }});
    if (have < layer.size)
      throw Error(Kind::Unavailable, "registry " + endpoint.base().host + ": a layer ended early");
  }

  void fetch_layer(const image::Layer& layer, const store::PartialBlob& part) {
    crypto::Sha256 hash;
    uint64_t have = 0;
    milliseconds wait = options.backoff;
    int idle = 0;  // tries without progress, one after another
    for (int tries = 0; have < layer.size || tries == 0; ++tries) {
      const uint64_t before = have;
      Endpoint& endpoint = *endpoints[idle < 2 ? chosen : endpoints.size() - 1];
      try {
        fetch_rest(endpoint, layer, part.fd(), have, hash);
        break;
      } catch (const Error& error) {
        idle = have > before ? 0 : idle + 1;
        if (!worth_another_try(error) || idle == kMaxTries || tries == kMaxResumes) {
          done -= have;
          throw;
        }
        if (have > before) wait = options.backoff;
      }
      pause(wait);
      wait = std::min(wait * 2, kMaxBackoff);
    }
    if (oci::Digest(hash.finish()) != *layer.digest)
      throw Error(Kind::Invalid, "registry " + endpoints[chosen]->base().host + ": layer " +
                                     layer.digest->text() + " is not what its digest promises");
  }

  // Until it is here, by us or by somebody else who was first.
  void obtain(Download& download) {
    const image::Layer& layer = download.layer;
    while (true) {
      if (const auto found = blobs.find(*layer.digest);
          found && sys::file_size(found->get()) == layer.size) {
        done += layer.size;
        return is_here(download, {});
      }
      if (auto part = blobs.begin(*layer.digest)) {
        fetch_layer(layer, *part);
        // It is unpacked while the disk takes it.
        is_here(download, part->duplicate());
        keep(download, std::move(*part));
        return;
      }
      pause(kTick);
    }
  }
  void is_here(Download& download, sys::Fd file) {
    const std::lock_guard lock(mutex);
    download.verified = static_cast<bool>(file);
    download.file = std::move(file);
    download.state = Download::State::Here;
    changed.notify_all();
  }
  // For later pulls. This one has its bytes, and does not fail where the store cannot take them.
  void keep(Download& download, store::PartialBlob part) {
    try {
      blobs.commit(std::move(part), *download.layer.digest);
    } catch (const Error&) {
      return;
    }
    const std::lock_guard lock(mutex);
    download.file.reset();
  }

  void work() noexcept {
    while (true) {
      Download* next = nullptr;
      {
        const std::lock_guard lock(mutex);
        for (auto& download : downloads)
          if (download->state == Download::State::Waiting && next == nullptr) next = download.get();
        if (next == nullptr || stopping) return;
        next->state = Download::State::Running;
      }
      // Of the calling thread alone: sched(7), "The nice value".
      if (next != downloads.front().get()) ::setpriority(PRIO_PROCESS, 0, kNice);
      try {
        obtain(*next);
      } catch (...) {
        const std::lock_guard lock(mutex);
        next->failure = std::current_exception();
        next->state = Download::State::Failed;
        changed.notify_all();
      }
    }
  }

  // All of it is asked for before any of it comes.
  void require_room() const {
    uint64_t missing = 0;
    for (const auto& download : downloads)
      if (!blobs.find(*download->layer.digest)) missing += download->layer.size;
    blobs.require_room(missing);
  }

  void start(const std::vector<image::Layer>& layers) {
    std::set<oci::Digest> seen;
    for (const image::Layer& layer : layers) {
      if (!seen.insert(*layer.digest).second) continue;
      downloads.push_back(std::make_unique<Download>(Download{.layer = layer}));
      total += layer.size;
    }
  }

  const Download& download_of(const image::Layer& layer) const {
    const auto found = std::find_if(downloads.begin(), downloads.end(), [&](const auto& download) {
      return *download->layer.digest == *layer.digest;
    });
    MVM_ASSERT(found != downloads.end());
    return **found;
  }

  void start_threads() {
    if (threads.empty()) require_room();
    const size_t count = std::min<size_t>(options.parallel, downloads.size());
    while (threads.size() < count) threads.emplace_back([this] { work(); });
  }

  const store::Blobs& blobs;
  sys::Fd held;
  oci::Reference reference;
  Options options;
  image::Progress progress;
  std::thread::id owner;
  std::atomic<bool> stopping{false};
  std::atomic<uint64_t> done{0};
  uint64_t total = 0;
  std::unique_ptr<Transport> transport;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  size_t chosen = 0;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Download>> downloads;  // in the order of layers
  std::vector<std::thread> threads;
};

RegistrySource::RegistrySource(const store::Blobs& blobs, oci::Reference reference, Options options,
                               image::Progress progress) {
  if (options.settings.require_digest && !reference.digest)
    throw Error(Kind::Denied, "image " + reference.text() +
                                  ": require_digest is set, so it must be named with its digest "
                                  "(NAME@sha256:...)");
  impl_ =
      std::make_unique<Impl>(blobs, std::move(reference), std::move(options), std::move(progress));
}
RegistrySource::~RegistrySource() = default;

image::OciImage RegistrySource::resolve(const image::Selection& selection) {
  Impl& impl = *impl_;
  const auto& pinned = impl.reference.digest;
  const Impl::Document top = impl.fetch_manifest(pinned ? pinned->text() : impl.reference.tag);
  const oci::Digest digest = oci::Digest::of(as_bytes(top.text));
  if (pinned && digest != *pinned)
    throw Error(Kind::Invalid, "registry " + impl.endpoints[impl.chosen]->base().host +
                                   ": the manifest is not what its digest promises");
  image::OciImage image = image::resolve_image(
      digest, top.text, top.media_type, selection, [&](const oci::Descriptor& descriptor) {
        const bool manifest = descriptor.media_type.find("config") == std::string::npos &&
                              descriptor.media_type.find("container.image") == std::string::npos;
        return impl
            .fetch_document(*impl.endpoints[impl.chosen],
                            (manifest ? "manifests/" : "blobs/") + descriptor.digest.text())
            .text;
      });
  image.reference = impl.reference.text();
  impl.start(image.layers);
  return image;
}

bool RegistrySource::has_layer(const image::Layer& layer) {
  Impl& impl = *impl_;
  const std::lock_guard lock(impl.mutex);
  return impl.download_of(layer).state == Download::State::Here;
}

bool RegistrySource::distrust(const image::Layer& layer) {
  Impl& impl = *impl_;
  const std::lock_guard lock(impl.mutex);
  const Download& download = impl.download_of(layer);
  if (download.state != Download::State::Here || download.verified) return false;
  impl.blobs.remove(*layer.digest);
  return true;
}

image::Blob RegistrySource::open_layer(const image::Layer& layer) {
  Impl& impl = *impl_;
  std::unique_lock lock(impl.mutex);
  impl.start_threads();
  const Download& download = impl.download_of(layer);
  while (download.state != Download::State::Here) {
    if (download.failure) std::rethrow_exception(download.failure);
    impl.changed.wait_for(lock, kTick);
    lock.unlock();
    impl.tell();
    lock.lock();
  }
  const bool verified = download.verified;
  auto fd =
      download.file ? std::optional(download.file.duplicate()) : impl.blobs.find(*layer.digest);
  if (!fd) throw Error(Kind::Conflict, "a layer was removed while it was needed");
  const uint64_t size = sys::file_size(fd->get());
  return {std::move(*fd), 0, size, verified};
}

}

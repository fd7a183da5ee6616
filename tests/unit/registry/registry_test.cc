// Pulls from registries that behave, and from ones that do not.

#include "mvm/registry/registry.h"

#include <condition_variable>
#include <csignal>
#include <mutex>

#include <sys/wait.h>

#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "unit/image/erofs_reader.h"
#include "unit/image/oci_builder.h"
#include "unit/image/scratch_store.h"
#include "unit/registry/fake_registry.h"

namespace mvm::registry {
namespace {

using image::digest_of;
using image::ErofsReader;
using image::error_of;
using image::Imported;
using image::OciBuilder;
using image::TarBuilder;
using ::testing::HasSubstr;

// Serves one image and lets a test spoil single answers.
class Registry : public image::ScratchStore {
 protected:
  Registry() {
    options_.backoff = std::chrono::milliseconds(1);
    options_.transport.silence = std::chrono::milliseconds(5'000);
    options_.credentials = [this](std::string_view host) -> std::optional<Credentials> {
      asked_for_.emplace_back(host);
      return credentials_;
    };
  }

  void serve(OciBuilder& image, const std::string& path = "app") {
    manifest_ = image.manifest().dump();
    blobs_ = image.blobs;
    path_ = path;
  }
  std::string answer(const FakeRegistry::Request& request) {
    const std::string prefix = "/v2/" + path_ + "/";
    const std::string target = request.path();
    if (!target.starts_with(prefix)) return FakeRegistry::reply("404 Not Found", "", "");
    const std::string rest = target.substr(prefix.size());
    const std::string name = rest.substr(rest.find('/') + 1);
    if (rest.starts_with("manifests/") &&
        (!name.starts_with("sha256:") || name == digest_of(manifest_)))
      return FakeRegistry::ok(manifest_,
                              "Content-Type: application/vnd.oci.image.manifest.v1+json\r\n");
    const auto blob = blobs_.find(name);
    if (blob == blobs_.end()) return FakeRegistry::reply("404 Not Found", "", "");
    return FakeRegistry::ok(blob->second);
  }

  Imported pull(const std::string& reference) {
    const store::Blobs blobs(paths_);
    RegistrySource source(blobs, oci::parse_reference(reference), options_);
    store::Images images(paths_);
    return import_oci(images, source, reference, store::parse_image_name("pulled"));
  }
  Imported pull(const FakeRegistry& registry, const std::string& rest = "/app:v1") {
    return pull(registry.host() + rest);
  }
  Error refused(const FakeRegistry& registry, const std::string& rest = "/app:v1") {
    const Error error = error_of([&] { pull(registry, rest); });
    expect_nothing_left();
    for (const std::string& name : sys::list_directory(paths_.blobs_dir()))
      EXPECT_FALSE(name.starts_with(".part")) << name;
    return error;
  }
  static std::string file_in(const Imported& imported) {
    return ErofsReader(imported.image.root).at("f").content;
  }
  // One layer, stored as it is, so that its bytes are easy to spoil.
  std::string one_layer(OciBuilder& image, size_t size = 300'000) {
    const std::string tar = TarBuilder().file("f", std::string(size, 'x')).bytes();
    image.layer(tar, tar);
    return digest_of(tar);
  }

  Options options_;
  std::optional<Credentials> credentials_;
  std::vector<std::string> asked_for_;
  std::string manifest_;
  std::map<std::string, std::string> blobs_;
  std::string path_;
};

TEST_F(Registry, PullsAnImageAndKeepsItsLayers) {
  OciBuilder image;
  image.layer(TarBuilder().file("f", "one")).layer(TarBuilder().file("g", "two"));
  serve(image);
  const FakeRegistry registry([&](const auto& request) { return answer(request); });
  const Imported imported = pull(registry);
  EXPECT_EQ(file_in(imported), "one");
  EXPECT_EQ(imported.image.manifest.source_kind, "registry");
  EXPECT_EQ(imported.image.manifest.source_digest, digest_of(manifest_));
  EXPECT_EQ(sys::list_directory(paths_.blobs_dir()).size(), 2U);
}

TEST_F(Registry, LayersThatAreHereAreNotDownloadedAgain) {
  OciBuilder first;
  first.layer(TarBuilder().file("f", "shared")).layer(TarBuilder().file("g", "1"));
  const std::string shared = first.layers()[0]["digest"].get<std::string>();
  serve(first);
  const FakeRegistry registry([&](const auto& request) { return answer(request); });
  pull(registry);
  EXPECT_EQ(registry.asked_for(shared), 1U);
  OciBuilder second;
  second.layer(TarBuilder().file("f", "shared")).layer(TarBuilder().file("g", "2"));
  serve(second);
  EXPECT_FALSE(pull(registry).existed);
  EXPECT_EQ(registry.asked_for(shared), 1U);
  EXPECT_TRUE(pull(registry).existed);
}

// What came in this pull was verified on its way; what was here before may have been damaged since.
TEST_F(Registry, LayersOfEarlierPullsAreVerifiedAgain) {
  OciBuilder first;
  const std::string digest = one_layer(first);
  serve(first);
  const FakeRegistry registry([&](const auto& request) { return answer(request); });
  const Imported imported = pull(registry);
  const std::string path = paths_.blobs_dir() + "/" + digest.substr(7);
  std::string bytes = sys::read_text_file(path, 1 << 20);
  bytes.back() ^= 1;
  sys::write_file_atomic(path, as_bytes(bytes));
  store::Images(paths_).remove(imported.image.digest, {});
  const Error error = error_of([&] { pull(registry); });
  EXPECT_THAT(error.message(), HasSubstr("layer 1 of 1"));
  EXPECT_THAT(error.message(), HasSubstr("its content is not what its digest promises"));
  // Once is enough: the next pull downloads it.
  EXPECT_THAT(error.message(), HasSubstr("is removed"));
  EXPECT_EQ(pull(registry).image.digest, imported.image.digest);
  EXPECT_EQ(registry.asked_for(digest), 2U);
}

TEST_F(Registry, ALayerThatWasCutOffIsDownloadedAgain) {
  OciBuilder image;
  const std::string digest = one_layer(image);
  serve(image);
  const FakeRegistry registry([&](const auto& request) { return answer(request); });
  const Imported imported = pull(registry);
  sys::write_file_atomic(paths_.blobs_dir() + "/" + digest.substr(7), {});
  store::Images(paths_).remove(imported.image.digest, {});
  EXPECT_EQ(pull(registry).image.digest, imported.image.digest);
  EXPECT_EQ(registry.asked_for(digest), 2U);
}

// Each layer comes only when all of them have been asked for.
TEST_F(Registry, LayersAreDownloadedSideBySide) {
  OciBuilder image;
  for (const char* name : {"f", "g", "h", "i"}) image.layer(TarBuilder().file(name, name));
  serve(image);
  std::mutex mutex;
  std::condition_variable changed;
  unsigned in_flight = 0;
  const FakeRegistry registry([&](const FakeRegistry::Request& request) {
    bool layer = false;
    for (const auto& entry : image.layers())
      layer = layer || request.path().ends_with(entry["digest"].get<std::string>());
    if (layer) {
      std::unique_lock lock(mutex);
      ++in_flight;
      changed.notify_all();
      // The bound is for a pull that does not: it fails then, and does not hang.
      if (!changed.wait_for(lock, std::chrono::seconds(4),
                            [&] { return in_flight == options_.parallel; }))
        return FakeRegistry::reply("403 Forbidden", "", "");
    }
    return answer(request);
  });
  EXPECT_EQ(file_in(pull(registry)), "f");
  EXPECT_EQ(in_flight, options_.parallel);
}

// The store only saves a later pull the download.
TEST_F(Registry, APullDoesNotFailWhereItsLayersCannotBeKept) {
  OciBuilder image;
  const std::string digest = one_layer(image);
  serve(image);
  const FakeRegistry registry([&](const auto& request) {
    // Nothing can be renamed to what is a directory.
    if (request.path().ends_with(digest))
      sys::make_directories(paths_.blobs_dir() + "/" + digest.substr(7));
    return answer(request);
  });
  EXPECT_EQ(file_in(pull(registry)).size(), 300'000U);
  for (const std::string& name : sys::list_directory(paths_.blobs_dir()))
    EXPECT_FALSE(name.starts_with(".part")) << name;
}

TEST_F(Registry, AsksForRoomBeforeAnythingIsDownloaded) {
  OciBuilder image;
  std::string noise;
  for (uint32_t i = 0, x = 1; i < 300'000; ++i, x = x * 1'664'525 + 1'013'904'223)
    noise += static_cast<char>(x >> 24U);
  image.layer(TarBuilder().file("f", noise));
  serve(image);
  const FakeRegistry registry([&](const auto& request) { return answer(request); });
  sys::write_file_atomic(paths_.image_settings(), as_bytes(R"({"quota": "100K"})"));
  const Error error = error_of([&] { pull(registry); });
  EXPECT_EQ(error.kind(), Kind::Exhausted);
  EXPECT_THAT(error.message(), HasSubstr("quota of 100"));
  EXPECT_EQ(registry.asked_for(image.layers()[0]["digest"].get<std::string>()), 0U);
  EXPECT_TRUE(sys::list_directory(paths_.blobs_dir()).empty());
  sys::write_file_atomic(paths_.image_settings(), as_bytes(R"({"quota": "10M"})"));
  EXPECT_FALSE(pull(registry).existed);
}

TEST_F(Registry, DigestPinsWhatIsPulled) {
  OciBuilder image;
  image.layer(TarBuilder().file("f", "x"));
  serve(image);
  const FakeRegistry registry([&](const auto& request) { return answer(request); });
  const std::string digest = digest_of(manifest_);
  EXPECT_EQ(file_in(pull(registry, "/app@" + digest)), "x");
  EXPECT_TRUE(store::Images(paths_).find(registry.host() + "/app@" + digest).has_value());
  EXPECT_FALSE(store::Images(paths_).find("app@" + digest_of("other")).has_value());
  store::Images(paths_).remove("pulled", {});
  const FakeRegistry liar([&](const auto& request) {
    return request.has("/manifests/") ? FakeRegistry::ok(manifest_ + " ") : answer(request);
  });
  EXPECT_THAT(refused(liar, "/app@" + digest).message(), HasSubstr("not what its digest promises"));
}

TEST_F(Registry, RequireDigestRefusesTagsBeforeAnythingIsAsked) {
  options_.settings.require_digest = true;
  const FakeRegistry registry([](const auto&) { return ""; });
  const Error error = refused(registry);
  EXPECT_EQ(error.kind(), Kind::Denied);
  EXPECT_THAT(error.message(), HasSubstr("require_digest"));
  EXPECT_TRUE(registry.requests().empty());
}

TEST_F(Registry, WrongLayersAreRefusedAndNotKept) {
  OciBuilder image;
  const std::string layer = one_layer(image);
  serve(image);
  blobs_[layer][1000] = 'y';
  const FakeRegistry registry([&](const auto& request) { return answer(request); });
  const Error error = refused(registry);
  EXPECT_EQ(error.kind(), Kind::Invalid);
  EXPECT_THAT(error.message(), HasSubstr("not what its digest promises"));
  EXPECT_TRUE(sys::list_directory(paths_.blobs_dir()).empty());
}

TEST_F(Registry, CutDownloadGoesOnWhereItEnded) {
  OciBuilder image;
  const std::string layer = one_layer(image);
  serve(image);
  std::vector<std::string> ranges;
  const FakeRegistry registry([&](const FakeRegistry::Request& request) -> std::string {
    if (request.path().find(layer) == std::string::npos) return answer(request);
    const std::string& blob = blobs_.at(layer);
    size_t start = 0;
    if (const size_t at = request.head.find("Range: bytes="); at != std::string::npos)
      start = std::stoul(request.head.substr(at + 13));
    ranges.push_back(std::to_string(start));
    const size_t end = std::min(blob.size(), start + 100'000);
    const std::string head = start == 0 ? "HTTP/1.1 200 OK\r\n"
                                        : "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " +
                                              std::to_string(start) + "-" +
                                              std::to_string(blob.size() - 1) + "/" +
                                              std::to_string(blob.size()) + "\r\n";
    return head + "Content-Length: " + std::to_string(blob.size() - start) + "\r\n\r\n" +
           blob.substr(start, end - start);
  });
  EXPECT_EQ(file_in(pull(registry)).size(), 300'000U);
  EXPECT_THAT(ranges, ::testing::ElementsAre("0", "100000", "200000", "300000"));
}

TEST_F(Registry, APullThatWasKilledIsDoneAgainFromWhatIsWhole) {
  OciBuilder image;
  const std::string whole = one_layer(image);
  const std::string tar = TarBuilder().file("g", std::string(300'000, 'y')).bytes();
  image.layer(tar, tar);
  const std::string half = digest_of(tar);
  serve(image);
  // Before there are threads: the child pulls from where it is told.
  auto [told, tell] = sys::socket_pair(sys::SocketType::Stream);
  const pid_t child = ::fork();
  if (child == 0) {
    char place[64] = {};
    if (::read(told.get(), place, sizeof place - 1) <= 0) ::_exit(1);
    try {
      pull(std::string(place) + "/app:v1");
    } catch (...) {
    }
    ::_exit(0);
  }
  constexpr int kPatience = 60'000;  // ms
  std::atomic<bool> killed = false;
  const FakeRegistry registry([&](const FakeRegistry::Request& request) -> std::string {
    if (killed || request.path().find(half) == std::string::npos) return answer(request);
    if (request.head.find("Range: bytes=") == std::string::npos) {
      const std::string answered = answer(request);
      return answered.substr(0, answered.size() - 100'000);
    }
    // The rest of it is asked for: a part is on the disk. The other layer has its time to be whole.
    const store::Blobs blobs(paths_);
    for (int turn = 0; turn < kPatience && !blobs.find(oci::Digest::parse(whole)); ++turn)
      ::usleep(1'000);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    killed = WIFSIGNALED(status);
    return "";
  });
  sys::write_all(tell.get(), as_bytes(registry.host()));
  for (int turn = 0; turn < 2 * kPatience && !killed; ++turn) ::usleep(1'000);
  ASSERT_TRUE(killed);
  EXPECT_TRUE(sys::exists(paths_.blobs_dir() + "/.part-" + half.substr(7)));
  EXPECT_FALSE(store::Images(paths_).find("pulled"));
  EXPECT_EQ(file_in(pull(registry)), std::string(300'000, 'x'));
  EXPECT_EQ(registry.asked_for(whole), 1U);
  for (const std::string& name : sys::list_directory(paths_.blobs_dir()))
    EXPECT_FALSE(name.starts_with(".part")) << name;
}

TEST_F(Registry, CutDownloadStartsAgainWhereTheServerKnowsNoRanges) {
  OciBuilder image;
  const std::string layer = one_layer(image);
  serve(image);
  int tries = 0;
  const FakeRegistry registry([&](const FakeRegistry::Request& request) {
    std::string whole = answer(request);
    if (request.path().find(layer) != std::string::npos && ++tries < 3)
      whole.resize(whole.size() / 2);
    return whole;
  });
  EXPECT_EQ(file_in(pull(registry)).size(), 300'000U);
  EXPECT_EQ(tries, 3);
}

TEST_F(Registry, AServerThatOnlyCutsIsGivenUp) {
  OciBuilder image;
  const std::string layer = one_layer(image);
  serve(image);
  const FakeRegistry registry([&](const FakeRegistry::Request& request) {
    return request.path().find(layer) != std::string::npos ? std::string() : answer(request);
  });
  EXPECT_EQ(refused(registry).kind(), Kind::Unavailable);
  EXPECT_EQ(registry.asked_for(layer), static_cast<size_t>(kMaxTries));
}

TEST_F(Registry, AnotherPartThanWasAskedForIsRefused) {
  OciBuilder image;
  const std::string layer = one_layer(image);
  serve(image);
  const FakeRegistry registry([&](const FakeRegistry::Request& request) -> std::string {
    if (request.path().find(layer) == std::string::npos) return answer(request);
    if (!request.has("Range:"))
      return "HTTP/1.1 200 OK\r\nContent-Length: 301568\r\n\r\n" + std::string(1000, 'x');
    return FakeRegistry::reply("206 Partial Content", "Content-Range: bytes 0-99/301568\r\n",
                               std::string(100, 'x'));
  });
  EXPECT_THAT(refused(registry).message(), HasSubstr("another part than was asked for"));
}

TEST_F(Registry, EndlessBodiesEnd) {
  OciBuilder image;
  const std::string layer = one_layer(image);
  serve(image);
  const std::string endless = "HTTP/1.1 200 OK\r\n\r\n" + std::string(20 << 20, 'x');
  const FakeRegistry blob([&](const FakeRegistry::Request& request) {
    return request.path().find(layer) != std::string::npos ? endless : answer(request);
  });
  EXPECT_THAT(refused(blob).message(), HasSubstr("longer than the"));
  const FakeRegistry manifest([&](const FakeRegistry::Request&) { return endless; });
  const Error error = refused(manifest);
  EXPECT_EQ(error.kind(), Kind::Exhausted);
  EXPECT_THAT(error.message(), HasSubstr("a document of more than 4 MiB"));
  const FakeRegistry head([&](const FakeRegistry::Request&) {
    return "HTTP/1.1 200 OK\r\nX: " + std::string(1 << 20, 'x');
  });
  EXPECT_THAT(refused(head).message(), HasSubstr("no HTTP"));
}

TEST_F(Registry, RedirectsAreFollowedWithoutOurPassword) {
  OciBuilder image;
  const std::string layer = one_layer(image);
  serve(image);
  credentials_ = Credentials{"me", "secret"};
  const FakeRegistry storage([&](const FakeRegistry::Request& request) {
    return request.has("Authorization") ? FakeRegistry::reply("400 Bad Request", "", "")
                                        : FakeRegistry::ok(blobs_.at(layer));
  });
  const FakeRegistry registry([&](const FakeRegistry::Request& request) {
    if (!request.has("Authorization: Basic " + base64("me:secret")))
      return FakeRegistry::reply("401 Unauthorized", "WWW-Authenticate: Basic realm=\"x\"\r\n", "");
    if (request.path().find(layer) != std::string::npos)
      return FakeRegistry::reply("307 Temporary Redirect",
                                 "Location: http://" + storage.host() + "/data?token=1\r\n", "");
    return answer(request);
  });
  EXPECT_EQ(file_in(pull(registry)).size(), 300'000U);
  EXPECT_EQ(storage.asked_for("/data?token=1"), 1U);
  EXPECT_THAT(asked_for_, ::testing::Contains(registry.host()));
}

TEST_F(Registry, RedirectsInCirclesAndToHttpElsewhereAreRefused) {
  const FakeRegistry circle([](const FakeRegistry::Request& request) {
    return FakeRegistry::reply("302 Found", "Location: " + request.path() + "\r\n", "");
  });
  EXPECT_THAT(refused(circle).message(), HasSubstr("more than 5 redirects"));
  const FakeRegistry away([](const FakeRegistry::Request&) {
    return FakeRegistry::reply("302 Found", "Location: http://192.0.2.1/x\r\n", "");
  });
  EXPECT_THAT(refused(away).message(), HasSubstr("without TLS only registries on this host"));
  const FakeRegistry odd([](const FakeRegistry::Request&) {
    return FakeRegistry::reply("302 Found", "Location: file:///etc/passwd\r\n", "");
  });
  EXPECT_THAT(refused(odd).message(), HasSubstr("must start with https://"));
}

TEST_F(Registry, TokenIsFetchedForThisRepositoryAndRenewedWhenItRunsOut) {
  OciBuilder image;
  one_layer(image);
  serve(image);
  credentials_ = Credentials{"me", "secret"};
  int issued = 0;
  int used = 0;
  const FakeRegistry tokens([&](const FakeRegistry::Request& request) {
    EXPECT_TRUE(request.has("scope=repository%3Aapp%3Apull"));
    EXPECT_TRUE(request.has("service=the%20service"));
    EXPECT_TRUE(request.has("Authorization: Basic " + base64("me:secret")));
    return FakeRegistry::ok(R"({"token":"t)" + std::to_string(++issued) + R"("})");
  });
  const FakeRegistry registry([&](const FakeRegistry::Request& request) {
    const bool good = request.has("Authorization: Bearer t" + std::to_string(issued) + "\r\n");
    if (!good || (++used == 2 && issued == 1))
      return FakeRegistry::reply("401 Unauthorized",
                                 "WWW-Authenticate: Bearer realm=\"http://" + tokens.host() +
                                     "/token\",service=\"the service\",scope=\"all:of:it\"\r\n",
                                 "");
    return answer(request);
  });
  EXPECT_EQ(file_in(pull(registry)).size(), 300'000U);
  EXPECT_EQ(issued, 2);
}

TEST_F(Registry, RefusalsAreExplained) {
  const FakeRegistry closed([](const auto&) {
    return FakeRegistry::reply("401 Unauthorized", "WWW-Authenticate: Basic realm=\"x\"\r\n", "");
  });
  EXPECT_THAT(refused(closed).message(), HasSubstr("docker or podman login"));
  const FakeRegistry denied([](const auto&) {
    return FakeRegistry::reply("403 Forbidden", "",
                               R"({"errors":[{"code":"DENIED","message":"no \u001b[31mway"}]})");
  });
  const Error error = refused(denied);
  EXPECT_EQ(error.kind(), Kind::Denied);
  EXPECT_THAT(error.message(), HasSubstr("no \\x1b[31mway"));
  const FakeRegistry absent(
      [](const auto&) { return FakeRegistry::reply("404 Not Found", "", ""); });
  EXPECT_EQ(refused(absent).kind(), Kind::NotFound);
  const FakeRegistry kerberos([](const auto&) {
    return FakeRegistry::reply("401 Unauthorized", "WWW-Authenticate: Negotiate\r\n", "");
  });
  EXPECT_THAT(refused(kerberos).message(), HasSubstr("not known: Negotiate"));
}

TEST_F(Registry, BusyServersAreAskedAgainABoundedNumberOfTimes) {
  OciBuilder image;
  one_layer(image);
  serve(image);
  std::atomic<int> asked{0};
  const FakeRegistry busy([&](const auto& request) {
    return asked++ % 2 == 0 ? FakeRegistry::reply("503 Service Unavailable", "", "")
                            : answer(request);
  });
  EXPECT_EQ(file_in(pull(busy)).size(), 300'000U);
  store::Images(paths_).remove("pulled", {});
  const FakeRegistry broken(
      [&](const auto&) { return FakeRegistry::reply("500 Internal Server Error", "", ""); });
  EXPECT_EQ(error_of([&] { pull(broken); }).kind(), Kind::Unavailable);
  EXPECT_EQ(broken.requests().size(), static_cast<size_t>(kMaxTries));
}

TEST_F(Registry, MirrorsComeFirstAndTheRegistryFillsIn) {
  OciBuilder image;
  one_layer(image);
  serve(image);
  const FakeRegistry mirror([&](const auto& request) { return answer(request); });
  const FakeRegistry empty(
      [](const auto&) { return FakeRegistry::reply("404 Not Found", "", ""); });
  options_.settings.mirrors["registry.invalid"] = {"http://" + empty.host(),
                                                   "http://" + mirror.host()};
  EXPECT_EQ(file_in(pull("registry.invalid/app:v1")).size(), 300'000U);
  EXPECT_EQ(empty.requests().size(), 1U);
}

TEST_F(Registry, NothingListens) {
  std::string host;
  {
    const FakeRegistry gone([](const auto&) { return ""; });
    host = gone.host();
  }
  const Error error = error_of([&] { pull(host + "/app"); });
  EXPECT_EQ(error.kind(), Kind::Unavailable);
  EXPECT_THAT(error.message(), HasSubstr(host));
}

TEST_F(Registry, SettingsAreReadStrictly) {
  const Settings settings = parse_settings(
      R"({"mirrors":{"docker.io":["https://m.example"]},"require_digest":true})", "f");
  EXPECT_TRUE(settings.require_digest);
  EXPECT_EQ(settings.mirrors.at("docker.io").front(), "https://m.example");
  for (const char* bad : {"[]", R"({"mirror":{}})", R"({"mirrors":{"a":["ftp://x"]}})",
                          R"({"require_digest":"yes"})", "{"})
    EXPECT_EQ(error_of([&] { parse_settings(bad, "f"); }).kind(), Kind::Invalid) << bad;
}

TEST_F(Registry, CredentialsComeFromFilesAndHelpers) {
  const std::string file = scratch_.path() + "/config.json";
  const std::string helper = scratch_.path() + "/docker-credential-test";
  sys::write_file_atomic(
      helper,
      as_bytes("#!/bin/sh\nread host\n[ \"$host\" = helped.example ] || { echo credentials not "
               "found; exit 1; }\necho '{\"Username\":\"h\",\"Secret\":\"s\"}'\n"),
      0700);
  const std::string path = std::string(std::getenv("PATH"));
  ::setenv("PATH", (scratch_.path() + ":" + path).c_str(), 1);
  sys::write_file_atomic(
      file, as_bytes(R"({"auths":{"a.example":{"auth":")" + base64("user:pass:word") +
                     R"("},"https://index.docker.io/v1/":{"auth":")" + base64("d:p") +
                     R"("}},"credHelpers":{"helped.example":"test","other.example":"test",)" +
                     R"("evil.example":"../../bin/sh"}})"));
  const std::vector<std::string> files{scratch_.path() + "/absent", file};
  EXPECT_EQ(find_credentials(files, "a.example")->password, "pass:word");
  EXPECT_EQ(find_credentials(files, "docker.io")->user, "d");
  EXPECT_EQ(find_credentials(files, "helped.example")->user, "h");
  EXPECT_FALSE(find_credentials(files, "other.example").has_value());
  EXPECT_FALSE(find_credentials(files, "unknown.example").has_value());
  EXPECT_EQ(error_of([&] { find_credentials(files, "evil.example"); }).kind(), Kind::Invalid);
  ::setenv("PATH", path.c_str(), 1);
}

TEST(Base64, IsItsOwnInverse) {
  for (const std::string text : {"", "a", "ab", "abc", "abcd", "\xff\xfe\xfd"})
    EXPECT_EQ(base64_decode(base64(text)), text);
  EXPECT_EQ(base64("user:pass"), "dXNlcjpwYXNz");
  EXPECT_FALSE(base64_decode("a*b").has_value());
}

TEST(Urls, AreTakenApartStrictly) {
  const Url url = parse_url("https://h.example:8443/a/b?c=d#e");
  EXPECT_EQ(url.name, "h.example");
  EXPECT_EQ(url.port, "8443");
  EXPECT_EQ(url.target, "/a/b?c=d");
  EXPECT_EQ(parse_url("http://[::1]:5000").name, "::1");
  EXPECT_EQ(resolve_url(url, "/x").text(), "https://h.example:8443/x");
  EXPECT_EQ(resolve_url(url, "x").text(), "https://h.example:8443/a/x");
  EXPECT_EQ(resolve_url(url, "//other/y").text(), "https://other/y");
  for (const char* bad : {"ftp://x", "https://", "https://a:0/", "https://u:p@h/", "https://h/ x",
                          "https://h\r\nX: y/", "https://a b/"})
    EXPECT_EQ(error_of([&] { parse_url(bad); }).kind(), Kind::Invalid) << bad;
}

}
}

// Against what others have built: Debian's umoci, buildah and skopeo make and convert images, its
// docker-registry serves them (package group "oci"). Nothing here needs root.

#include <netinet/in.h>
#include <sys/socket.h>

#include "mvm/registry/registry.h"

#include "unit/image/erofs_reader.h"
#include "unit/image/memory_growth.h"
#include "unit/image/oci_builder.h"
#include "unit/image/scratch_store.h"
#include "unit/registry/fake_registry.h"

namespace mvm::registry {
namespace {

using image::ErofsReader;
using image::error_of;
using image::Imported;
using image::OciBuilder;
using image::TarBuilder;
using ::testing::HasSubstr;

class Tools : public image::ScratchStore {
 protected:
  void SetUp() override {
    for (const char* tool : {"/usr/bin/umoci", "/usr/bin/skopeo", "/usr/bin/docker-registry"})
      if (!sys::exists(tool)) GTEST_SKIP() << tool << " is not installed";
  }
  std::string at(const std::string& name) const { return scratch_.path() + "/" + name; }

  int try_tool(const std::vector<std::string>& argv) const {
    sys::SpawnOptions options;
    options.argv = argv;
    options.env = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + scratch_.path(),
                   "XDG_RUNTIME_DIR=" + scratch_.path()};
    const sys::Fd null = sys::open_file("/dev/null", O_RDWR);
    const sys::Fd log = sys::open_file(at("tool.log"), O_WRONLY | O_CREAT | O_TRUNC);
    options.fds = {{null.get(), 0}, {log.get(), 1}, {log.get(), 2}};
    return sys::spawn(options).wait()->code;
  }
  void tool(const std::vector<std::string>& argv) const {
    ASSERT_EQ(try_tool(argv), 0) << argv[0] << " " << argv[1] << ": "
                                 << sys::read_text_file(at("tool.log"), 1 << 20);
  }
  void umoci(std::vector<std::string> argv) const {
    argv.insert(argv.begin(), "/usr/bin/umoci");
    tool(argv);
  }
  void skopeo_copy(const std::string& from, const std::string& to) const {
    tool({"/usr/bin/skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false",
          "--src-tls-verify=false", from, to});
  }
  void write(const std::string& path, const std::string& text) const {
    sys::make_directories(at(path.substr(0, path.rfind('/'))));
    sys::write_file_atomic(at(path), as_bytes(text), 0644);
  }

  // Three layers by umoci, with a whiteout, an opaque directory, a user and a command.
  void build_with_umoci() {
    write("one/etc/conf", "first");
    write("one/etc/gone", "x");
    write("one/data/old", "x");
    write("two/conf", "second");
    write("three/new", "n");
    umoci({"init", "--layout", at("oci")});
    const std::string image = at("oci") + ":v1";
    umoci({"new", "--image", image});
    umoci({"insert", "--rootless", "--image", image, at("one"), "/"});
    umoci({"insert", "--rootless", "--image", image, at("two/conf"), "/etc/conf"});
    umoci({"insert", "--rootless", "--image", image, "--whiteout", "/etc/gone"});
    umoci({"insert", "--rootless", "--image", image, "--opaque", at("three"), "/data"});
    umoci({"config", "--image", image, "--config.user", "1000:1000", "--config.entrypoint",
           "/bin/app", "--config.cmd", "serve", "--config.env", "MODE=test", "--config.workingdir",
           "/data", "--config.stopsignal", "SIGINT", "--config.label", "a=b"});
  }
  static void expect_built(const Imported& imported) {
    const ErofsReader image(imported.image.root);
    EXPECT_EQ(image.at("etc/conf").content, "second");
    EXPECT_EQ(image.at("data/new").content, "n");
    EXPECT_FALSE(image.files.contains("etc/gone"));
    EXPECT_FALSE(image.files.contains("data/old"));
    const store::ImageConfig& config = imported.image.manifest.config;
    EXPECT_EQ(config.user, "1000:1000");
    EXPECT_EQ(config.workdir, "/data");
    EXPECT_EQ(config.stop_signal, "SIGINT");
    EXPECT_EQ(config.labels.at("a"), "b");
    EXPECT_THAT(config.entrypoint, ::testing::ElementsAre("/bin/app"));
    EXPECT_THAT(config.cmd, ::testing::ElementsAre("serve"));
    EXPECT_THAT(config.env, ::testing::Contains("MODE=test"));
  }
};

TEST_F(Tools, ImageOfUmociInEveryFormatIsTheSame) {
  build_with_umoci();
  const Imported layout = import(at("oci"));
  expect_built(layout);
  skopeo_copy("oci:" + at("oci") + ":v1", "oci-archive:" + at("oci.tar") + ":v1");
  EXPECT_EQ(import(at("oci.tar")).image.digest, layout.image.digest);
  skopeo_copy("oci:" + at("oci") + ":v1", "docker-archive:" + at("docker.tar") + ":app:v1");
  const Imported saved = import(at("docker.tar"));
  EXPECT_NE(saved.image.manifest.source_digest, layout.image.manifest.source_digest);
  EXPECT_EQ(saved.image.digest, layout.image.digest);
}

TEST_F(Tools, LayersOfZstdBySkopeo) {
  build_with_umoci();
  tool({"/usr/bin/skopeo", "--insecure-policy", "copy", "--quiet", "--dest-compress-format=zstd",
        "--dest-compress", "oci:" + at("oci") + ":v1", "oci:" + at("zstd") + ":v1"});
  expect_built(import(at("zstd")));
}

// Its containers and layers in folders of the test's own, where any user may keep them.
class Buildah : public Tools {
 protected:
  void SetUp() override {
    if (!sys::exists("/usr/bin/buildah")) GTEST_SKIP() << "buildah is not installed";
    Tools::SetUp();
    write("conf/storage.conf",
          "[storage]\ndriver = \"vfs\"\n[storage.options.vfs]\nignore_chown_errors = \"true\"\n");
    write("conf/registries.conf", "unqualified-search-registries = []\n");
    write("conf/policy.json", R"({"default": [{"type": "insecureAcceptAnything"}]})");
  }
  void buildah(std::vector<std::string> words) const {
    std::vector<std::string> argv{"/usr/bin/env",
                                  "CONTAINERS_STORAGE_CONF=" + at("conf/storage.conf"),
                                  "CONTAINERS_REGISTRIES_CONF=" + at("conf/registries.conf"),
                                  "/usr/bin/buildah",
                                  "--root=" + at("containers"),
                                  "--runroot=" + at("containers-run"),
                                  "--storage-driver=vfs"};
    argv.insert(argv.end(), words.begin(), words.end());
    tool(argv);
  }
};

TEST_F(Buildah, ImageOfTwoLayersAndAUser) {
  write("one/conf", "first");
  write("one/gone", "x");
  write("two/conf", "second");
  buildah({"from", "--name=base", "scratch"});
  buildah({"copy", "base", at("one"), "/etc"});
  // Other owners than its own are root's to give.
  if (::geteuid() == 0) buildah({"copy", "--chown=1000:1001", "base", at("two"), "/home/app"});
  const std::string policy = "--signature-policy=" + at("conf/policy.json");
  buildah({"commit", policy, "base", "localhost/base:v1"});
  buildah({"from", policy, "--pull-never", "--name=app", "localhost/base:v1"});
  buildah({"copy", "app", at("two"), "/etc"});
  buildah({"config", "--user=1000:1000", "--entrypoint=[\"/bin/app\"]", "--cmd=serve",
           "--env=MODE=test", "--workingdir=/data", "--stop-signal=SIGINT", "--label=a=b", "app"});
  buildah({"commit", policy, "app", "oci:" + at("app") + ":v1"});

  const Imported imported = import(at("app"));
  EXPECT_EQ(imported.image.manifest.layers.size(), 2U);
  const ErofsReader image(imported.image.root);
  EXPECT_EQ(image.at("etc/conf").content, "second");
  EXPECT_EQ(image.at("etc/gone").content, "x");
  if (::geteuid() == 0) {
    EXPECT_EQ(image.at("home/app/conf").uid, 1000U);
    EXPECT_EQ(image.at("home/app/conf").gid, 1001U);
  }
  const store::ImageConfig& config = imported.image.manifest.config;
  EXPECT_EQ(config.user, "1000:1000");
  EXPECT_EQ(config.workdir, "/data");
  EXPECT_EQ(config.stop_signal, "SIGINT");
  EXPECT_EQ(config.labels.at("a"), "b");
  EXPECT_THAT(config.entrypoint, ::testing::ElementsAre("/bin/app"));
  EXPECT_THAT(config.cmd, ::testing::ElementsAre("serve"));
  EXPECT_THAT(config.env, ::testing::Contains("MODE=test"));
}

// A docker-registry of our own on a loopback port.
class RealRegistry : public Tools {
 protected:
  void TearDown() override {
    if (!child_) return;
    child_.signal(SIGTERM);
    child_.wait();
  }

  static uint16_t free_port() {
    const sys::Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    sys::check(::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), size), "bind");
    ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }

  void serve(const std::string& http = "", const std::string& more = "") {
    const uint16_t port = free_port();
    host_ = "127.0.0.1:" + std::to_string(port);
    write("registry/config.yml",
          "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n"
          "    rootdirectory: " +
              at("registry/data") + "\nhttp:\n  addr: " + host_ + "\n" + http + more);
    sys::SpawnOptions options;
    options.argv = {"/usr/bin/docker-registry", "serve", at("registry/config.yml")};
    options.env = {"PATH=/usr/bin:/bin", "OTEL_TRACES_EXPORTER=none"};
    options.die_with_parent = true;
    const sys::Fd null = sys::open_file("/dev/null", O_RDWR);
    const sys::Fd log = sys::open_file(at("registry.log"), O_WRONLY | O_CREAT | O_TRUNC);
    options.fds = {{null.get(), 0}, {log.get(), 1}, {log.get(), 2}};
    child_ = sys::spawn(options);
    // It tells nobody when it listens.
    for (int tries = 0; tries < 600 && !listens(port); ++tries)
      ASSERT_FALSE(child_.wait(std::chrono::milliseconds(50)).has_value())
          << sys::read_text_file(at("registry.log"), 1 << 20);
    ASSERT_TRUE(listens(port));
  }
  static bool listens(uint16_t port) {
    const sys::Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return ::connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

  void push(const std::string& layout, const std::string& name) const {
    skopeo_copy("oci:" + layout, "docker://" + host_ + "/" + name);
  }
  Imported pull(const std::string& name) {
    const store::Blobs blobs(paths_);
    RegistrySource source(blobs, oci::parse_reference(host_ + "/" + name), options_);
    store::Images images(paths_);
    return import_oci(images, source, name, store::parse_image_name("pulled"));
  }

  sys::Child child_;
  std::string host_;
  Options options_;
};

TEST_F(RealRegistry, PullIsTheImageThatWasPushed) {
  build_with_umoci();
  serve();
  push(at("oci") + ":v1", "team/app:v1");
  const Imported pulled = pull("team/app:v1");
  expect_built(pulled);
  EXPECT_EQ(pulled.image.manifest.source_kind, "registry");
  EXPECT_EQ(pull("team/app@" + pulled.image.manifest.source_digest).image.digest,
            pulled.image.digest);
  EXPECT_EQ(error_of([&] { pull("team/none:v1"); }).kind(), Kind::NotFound);
}

TEST_F(RealRegistry, HundredLayersManyFilesAndUsersOfTheirOwn) {
  OciBuilder image;
  for (int i = 0; i < 100; ++i)
    image.layer(TarBuilder()
                    .file("same", std::to_string(i))
                    .add({.path = "f" + std::to_string(i),
                          .content = "x",
                          .uid = 1000U + i,
                          .gid = 2000U + i}));
  // Most are empty: it is their number that counts, and packing them takes the tools' time.
  TarBuilder many;
  constexpr int kFiles = image::kMeasured ? 200'000 : 20'000;  // sanitizers are slow
  for (int i = 0; i < kFiles; ++i)
    many.file("d" + std::to_string(i / 100) + "/f" + std::to_string(i),
              i % 100 == 99 ? std::to_string(i) : "");
  image.layer(many);
  image.config["config"]["User"] = "1042:2042";
  image.save(at("many"));
  serve();
  push(at("many"), "many:v1");
  Imported pulled;
  const uint64_t growth = image::growth_of([&] { pulled = pull("many:v1"); });
  if (image::kMeasured) {
    EXPECT_LT(growth, image::kMostGrowth + (8 << 20));  // what is under way from the registry
  }
  const ErofsReader read(pulled.image.root);
  EXPECT_EQ(read.at("same").content, "99");
  EXPECT_EQ(read.at("d199/f19999").content, "19999");
  EXPECT_EQ(read.at("f42").uid, 1042U);
  EXPECT_EQ(read.at("f42").gid, 2042U);
  EXPECT_EQ(pulled.image.manifest.config.user, "1042:2042");
  EXPECT_EQ(read.files.size(), 1U + 101U + static_cast<size_t>(kFiles / 100 + kFiles));
  image::expect_fsck_agrees(pulled.image.root);
}

TEST_F(RealRegistry, ManifestListIsResolvedForThePlatform) {
  OciBuilder arm;
  arm.layer(TarBuilder().file("f", "arm"));
  arm.config["architecture"] = "arm64";
  OciBuilder intel;
  intel.layer(TarBuilder().file("f", "intel"));
  const auto index = OciBuilder::index({arm.entry({{"os", "linux"}, {"architecture", "arm64"}}),
                                        intel.entry({{"os", "linux"}, {"architecture", "amd64"}})});
  for (const auto& [digest, content] : arm.blobs) intel.blobs[digest] = content;
  const auto top = intel.descriptor("application/vnd.oci.image.index.v1+json", index.dump());
  intel.save(at("list"), OciBuilder::index({top}));
  serve();
  tool({"/usr/bin/skopeo", "--insecure-policy", "copy", "--quiet", "--all",
        "--dest-tls-verify=false", "oci:" + at("list"), "docker://" + host_ + "/list:v1"});
  const Imported pulled = pull("list:v1");
  EXPECT_EQ(ErofsReader(pulled.image.root).at("f").content,
            oci::host_platform().architecture == "arm64" ? "arm" : "intel");
  EXPECT_NE(pulled.image.manifest.source_index, "");
}

TEST_F(RealRegistry, PasswordAndTlsAreWhatTheyShouldBe) {
  build_with_umoci();
  tool({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=registry", "-addext",
        "subjectAltName=IP:127.0.0.1", "-keyout", at("key.pem"), "-out", at("cert.pem")});
  // The password "secret", bcrypt with the lowest cost.
  write("registry/htpasswd", "me:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n");
  serve("  tls:\n    certificate: " + at("cert.pem") + "\n    key: " + at("key.pem") + "\n",
        "auth:\n  htpasswd:\n    realm: here\n    path: " + at("registry/htpasswd") + "\n");
  tool({"/usr/bin/skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false",
        "--dest-creds=me:secret", "oci:" + at("oci") + ":v1", "docker://" + host_ + "/app:v1"});

  const Error untrusted = error_of([&] { pull("app:v1"); });
  EXPECT_EQ(untrusted.kind(), Kind::Denied);
  EXPECT_THAT(untrusted.message(), HasSubstr("certificate is refused"));

  options_.transport.ca_file = at("cert.pem");
  const Error unknown = error_of([&] { pull("app:v1"); });
  EXPECT_EQ(unknown.kind(), Kind::Denied);
  EXPECT_THAT(unknown.message(), HasSubstr("wants a password"));
  options_.credentials = [](std::string_view) { return Credentials{"me", "wrong"}; };
  EXPECT_EQ(error_of([&] { pull("app:v1"); }).kind(), Kind::Denied);
  options_.credentials = [](std::string_view) { return Credentials{"me", "secret"}; };
  expect_built(pull("app:v1"));

  // The certificate is for the address, not for every name of this host.
  const store::Blobs blobs(paths_);
  RegistrySource source(
      blobs, oci::parse_reference("localhost" + host_.substr(host_.rfind(':')) + "/app:v1"),
      options_);
  const Error other = error_of([&] { source.resolve({}); });
  EXPECT_EQ(other.kind(), Kind::Denied);
  EXPECT_THAT(other.message(), HasSubstr("certificate is refused"));
}

}
}

// Package managers that install from a repository on the test's Internet.
#include "servers.h"

namespace mvm::egress {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;

class Packages : public Clients {};

// Makes a package; then $1 is its repository's folder, $2 what its list calls it, and the list goes
// to $3.
constexpr const char* kRepository = R"(
    mkdir -p www/$1 tiny/DEBIAN; printf 'Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@t>\nDescription: t\n' >tiny/DEBIAN/control
    dpkg-deb --build tiny www/$1/tiny_1.0_all.deb >/dev/null
    cd www/$1; size=$(stat -c %s tiny_1.0_all.deb); sum=$(sha256sum tiny_1.0_all.deb | cut -d' ' -f1); mkdir -p $3
    { cat ../../tiny/DEBIAN/control; printf 'Filename: %s\nSize: %s\nSHA256: %s\n' $2 $size $sum; } >$3/Packages
    mkdir -p ../../apt/etc ../../apt/lists/partial ../../apt/cache/archives/partial; : >../../apt/status)";
constexpr const char* kApt =
    R"(apt="apt-get -q -o APT::Sandbox::User=root -o Dir::Etc=$0/apt/etc -o Dir::Etc::parts=/nowhere
      -o Dir::State::lists=$0/apt/lists -o Dir::State::status=$0/apt/status -o Dir::Cache=$0/apt/cache
      -o APT::Architecture=amd64 -o Debug::NoLocking=1 -o Acquire::Retries=0"
    source() { echo "deb [trusted=yes] $1" >"$0/apt/etc/sources.list"; }; cd "$0"; )";

TEST_F(Packages, AptInstallsFromARepositoryThatARuleNames) {
  NEEDS("command -v nginx && command -v apt-get && command -v dpkg-deb");
  prepare(std::string("set -- deb tiny_1.0_all.deb dists/stable/main/binary-amd64") + kRepository);
  serve_files();
  allow_endpoint("GET https://files.example/deb/**");
  start();
  const auto fine = sh(std::string(kApt) + R"(source 'https://files.example/deb stable main'
    $apt update; $apt download tiny; cmp tiny_1.0_all.deb www/deb/tiny_1.0_all.deb)");
  EXPECT_EQ(fine.code, 0) << fine.out << fine.err;
  const auto refused = sh(std::string(kApt) + R"(source 'https://files.example/other stable main'
    $apt update -o APT::Update::Error-Mode=any)");
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.out + refused.err, HasSubstr("403"));
}

// Of a repository without directories it asks for "/flat/./Packages".
TEST_F(Packages, AptInstallsFromAFlatRepository) {
  NEEDS("command -v nginx && command -v apt-get && command -v dpkg-deb");
  prepare(std::string("set -- flat ./tiny_1.0_all.deb .") + kRepository);
  serve_files();
  allow_endpoint("GET https://files.example/flat/**");
  start();
  const auto fine = sh(std::string(kApt) + R"(source 'https://files.example/flat ./'
    $apt update; $apt download tiny; cmp tiny_1.0_all.deb www/flat/tiny_1.0_all.deb)");
  EXPECT_EQ(fine.code, 0) << fine.out << fine.err;
  EXPECT_THAT(events_of(EventKind::Http), Each(Field(&Event::reason, policy::Reason::Allowed)));
  const auto refused = sh(std::string(kApt) + R"(source 'https://files.example ./'
    $apt update -o APT::Update::Error-Mode=any)");
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.out + refused.err, HasSubstr("403"));
}

TEST_F(Packages, PipDownloadsFromAnIndexThatARuleNames) {
  NEEDS("command -v nginx && /usr/bin/python3 -m pip --version");
  prepare(R"(
    mkdir -p www/simple/tiny www/files
    python3 - <<'END'
import zipfile
with zipfile.ZipFile('www/files/tiny-1.0-py3-none-any.whl', 'w') as z:
  z.writestr('tiny.py', 'answer = 42\n')
  z.writestr('tiny-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n')
  z.writestr('tiny-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
  z.writestr('tiny-1.0.dist-info/RECORD', '')
END
    echo '<a href="/files/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>' >www/simple/tiny/index.html)");
  serve_files();
  allow_endpoint("GET https://files.example/simple/**");
  allow_endpoint("GET https://files.example/files/**");
  start();
  const std::string pip =
      "pip() { python3 -m pip --disable-pip-version-check --no-cache-dir --retries 0 \"$@\"; }; ";
  const auto fine = sh(
      pip +
      R"(pip install -q --no-deps --target "$0/site" --index-url https://files.example/simple tiny
      PYTHONPATH="$0/site" python3 -c 'import tiny; print(tiny.answer)')");
  EXPECT_EQ(fine.code, 0) << fine.out << fine.err;
  EXPECT_EQ(fine.out, "42\n");
  const auto refused =
      sh(pip + "pip download https://files.example/other/tiny-1.0-py3-none-any.whl");
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.out + refused.err, HasSubstr("HTTP error 403"));
}

TEST_F(Packages, NpmInstallsFromARegistryThatARuleNames) {
  NEEDS("command -v nginx && npm --version");
  prepare(R"(
    mkdir -p package www/npm/tiny/-; cd package; echo '{"name":"tiny","version":"1.0.0","main":"i.js"}' >package.json
    echo 'module.exports = 42' >i.js; cd ..; tar -czf www/npm/tiny/-/tiny-1.0.0.tgz package
    sum=$(openssl dgst -sha512 -binary www/npm/tiny/-/tiny-1.0.0.tgz | base64 -w0)
    printf '{"name":"tiny","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"tiny","version":"1.0.0","main":"i.js","dist":{"tarball":"https://files.example/npm/tiny/-/tiny-1.0.0.tgz","integrity":"sha512-%s"}}}}' "$sum" >www/npm/tiny/index.json)");
  serve_files();
  allow_endpoint("GET https://files.example/npm/**");
  start();
  const std::string npm =
      "mkdir -p \"$0/app\"; cd \"$0/app\"; npm() { command npm --no-audit --no-fund "
      "--fetch-retries=0 --loglevel=error \"$@\"; }; ";
  const auto fine = sh(
      npm +
      R"(npm install --registry https://files.example/npm/ tiny >&2; node -p 'require("tiny")')");
  EXPECT_EQ(fine.code, 0) << fine.out << fine.err;
  EXPECT_EQ(fine.out, "42\n");
  const auto refused = sh(npm + "npm install --registry https://files.example/other/ small");
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.out + refused.err, HasSubstr("403"));
}

}
}

// Read the data and open the page.

{
  const data = JSON.parse(document.getElementById("data").textContent);
  const page = new Page(data, document.getElementById("page"));
  performance.mark("regard:open");
}

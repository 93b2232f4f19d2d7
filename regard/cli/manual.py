"""What `regard COMMAND --help` says below the usage, for commands whose options no dataclass describes."""

TARGET = """TARGET is a run directory, a Hugging Face model directory (safetensors; random weights if there are none), or
package.module:function that returns (model, inputs[, symmetry[, roles]])."""

GENERATE = """

RUN is a run of regard train whose recipe generates something: a decoder that was trained on text.

"""

EVALUATE = """

RUN is a run of regard train. Its best weights are measured on the test split of its data, or on the validation split
where there is no test split; how many examples that is of stands beside it.

  --data PATH    another file or folder of the same kind, with its labels: its test split where it names one, else all of it
  --json         for machines: {"split", "count", "unit", "measures", and of a classifier "labels" and "confusion"}, in which
                 confusion[i][j] is how often class i was taken for class j"""

PREDICT = """

RUN is a run of regard train. INPUT is what it was trained on: for a classifier of texts a text in quotes, or the path of
a file of text (UTF-8); for other data files: pictures, clouds of points, tables, graphs. A folder stands for all pictures
in it and in its folders, and so does a pattern in quotes: 'photos/*.jpg', 'photos/**/*.png'.

exit code: 0 all are answered, 1 some could not be read (each is named on stderr), 2 none could, or it could not be run

  --json         for machines: a line of JSON for each input, {"input", "labels" or "values" or "each" or "error"}; of text
                 also "kind", which says whether the input was taken as a text or read from a file; with --out "picture"
  --out PATH     of pictures: draw where the model looked, and what its answer loses when a part of the picture is made
                 grey. A file (.png, .svg, .pdf) is one sheet of all inputs; a folder gets a file for each, NAME-looked.png,
                 or FOLDER-NAME-looked.png where names are equal (such files are no inputs when a folder is given).
                 Attention is drawn where a model attends: of the class token, or rollout to the mean of all patches"""

CHECK = f"""

{TARGET}

exit code: 0 as declared, 1 a law is broken, 2 it could not be run

  --laws A,B    only these (all of them, with a sentence each: regard list laws)
  --json        for machines
  --seed N      of the trials (0)
  --trials N    for each law (8)
  --dtype D     float64, float32, bfloat16 or float16 (as the model is)
  --device D    cpu, cuda, mps (cpu)"""

LOOK = f"""

{TARGET}

  --input X     a text, the path of a file (text; image: any size, grey or colour; points as .npy, .npz or .csv), or the
                name of a node to draw a large graph around, or of a set of the data, or its number if sets were made (an
                example is shown without it)
  --target X    what the decoder of an encoder-decoder has written (without it: what it writes itself)
  --out FILE    write a self-contained page (.html), or a still (.png, .svg, .pdf): all heads, over a picture with its answer,
                and what matters to the answer where nothing attends; without it the page is served on 127.0.0.1, and
                input, heads and the order of tokens can be changed there
  --port N      of the served page (any free one)
  --laws        measure the laws of a model that is no run, too; a run has them already"""

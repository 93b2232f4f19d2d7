from regard.look.reader import FixedReader
class SeriesReader(FixedReader):
    def __init__(self, run, model):
        super().__init__(model.sample_inputs())
